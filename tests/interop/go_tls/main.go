// Sends and consumes through TLS with the official Go client: driver NAME_SERVERS TOPIC GROUP.
// A module of its own: the last release of the client (v2.1.2) has no TLS, so this is a later state of its main branch,
// while the other driver stays on the release. It prints one JSON object a line.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var (
	nameServers = primitive.NewPassthroughResolver(strings.Split(os.Args[1], ";"))
	topic       = os.Args[2]
	group       = os.Args[3]
	printing    sync.Mutex
)

func step(name, body string) {
	text, err := json.Marshal(map[string]string{"step": name, "body": body})
	must(err)
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(text))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type listener struct{}

func (listener) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	if strings.HasPrefix(string(m.Body), "roll back") {
		return primitive.RollbackMessageState
	}
	return primitive.CommitMessageState
}

func (listener) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	return primitive.CommitMessageState
}

func main() {
	ctx := context.Background()
	p, err := rocketmq.NewProducer(producer.WithNsResolver(nameServers), producer.WithGroupName(group+"_p"), producer.WithTls(true))
	must(err)
	must(p.Start())
	for i := 0; i < 5; i++ {
		_, err := p.SendSync(ctx, primitive.NewMessage(topic, []byte(fmt.Sprint("sync ", i))))
		must(err)
	}
	_, err = p.SendSync(ctx, primitive.NewMessage(topic, []byte(strings.Repeat("long ", 100000))))
	must(err)
	must(p.Shutdown())

	t, err := rocketmq.NewTransactionProducer(listener{}, producer.WithNsResolver(nameServers), producer.WithGroupName(group+"_t"), producer.WithTls(true))
	must(err)
	must(t.Start())
	for _, body := range []string{"commit", "roll back"} {
		_, err := t.SendMessageInTransaction(ctx, primitive.NewMessage(topic, []byte(body)))
		must(err)
	}
	step("sent", "all")

	c, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(nameServers), consumer.WithGroupName(group), consumer.WithTls(true),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	must(err)
	must(c.Subscribe(topic, consumer.MessageSelector{}, func(_ context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range ms {
			step("got", string(m.Body))
		}
		return consumer.ConsumeSuccess, nil
	}))
	must(c.Start())
	fmt.Fscanln(os.Stdin)
	must(t.Shutdown())
	must(c.Shutdown())
}
