// The story of test_five_clients.py: endpoint, topic; for TLS and a signature, access key and secret key.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

var (
	topic   string
	writing sync.Mutex
)

func say(step, text string) {
	line, _ := json.Marshal(text)
	writing.Lock()
	defer writing.Unlock()
	fmt.Printf("{\"step\": \"%s\", \"text\": %s}\n", step, line)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func message(body string) *rmq.Message {
	made := &rmq.Message{Topic: topic, Body: []byte(body)}
	made.SetTag("five")
	return made
}

func got(who string, one *rmq.MessageView) {
	say(who, string(one.GetBody()))
	if string(one.GetBody()) == "normal 0" {
		say("as sent", fmt.Sprintf("%s %v %v", *one.GetTag(), one.GetKeys(), one.GetProperties()))
	}
}

func main() {
	topic = os.Args[2]
	keys := &credentials.SessionCredentials{}
	if len(os.Args) > 3 {
		keys = &credentials.SessionCredentials{AccessKey: os.Args[3], AccessSecret: os.Args[4]}
	} else {
		rmq.EnableSsl = false
	}
	where := func(group string) *rmq.Config {
		return &rmq.Config{Endpoint: os.Args[1], ConsumerGroup: group, Credentials: keys}
	}
	wanted := map[string]*rmq.FilterExpression{topic: rmq.NewFilterExpression("five")}
	push, err := rmq.NewPushConsumer(where(topic+"-push"),
		rmq.WithPushAwaitDuration(2*time.Second),
		rmq.WithPushSubscriptionExpressions(wanted),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{
			Consume: func(one *rmq.MessageView) rmq.ConsumerResult {
				got("push", one)
				return rmq.SUCCESS
			},
		}))
	must(err)
	must(push.Start())
	producer, err := rmq.NewProducer(where(""), rmq.WithTopics(topic),
		rmq.WithTransactionChecker(&rmq.TransactionChecker{
			Check: func(one *rmq.MessageView) rmq.TransactionResolution {
				say("check", string(one.GetBody()))
				return rmq.COMMIT
			},
		}))
	must(err)
	must(producer.Start())
	send(producer)
	simple, err := rmq.NewSimpleConsumer(where(topic+"-simple"),
		rmq.WithSimpleAwaitDuration(2*time.Second), rmq.WithSimpleSubscriptionExpressions(wanted))
	must(err)
	must(simple.Start())
	_, err = producer.Send(context.Background(), &rmq.Message{Topic: "Nothing", Body: []byte("x")})
	if status, known := rmq.AsErrRpcStatus(err); known {
		say("refused", fmt.Sprint(status.GetCode()))
	} else {
		say("refused", fmt.Sprint(err))
	}
	say("ready", "")
	for {
		found, err := simple.Receive(context.Background(), 16, 30*time.Second)
		if err != nil && !strings.Contains(err.Error(), "MESSAGE_NOT_FOUND") {
			say("failed", err.Error())
		}
		for _, one := range found {
			got("simple", one)
			must(simple.Ack(context.Background(), one))
		}
	}
}

func send(producer rmq.Producer) {
	ctx := context.Background()
	for number := 0; number < 3; number++ {
		one := message(fmt.Sprint("normal ", number))
		one.SetKeys(fmt.Sprint("k", number))
		one.AddProperty("a", "b")
		_, err := producer.Send(ctx, one)
		must(err)
	}
	ordered, delayed := message("ordered"), message("delayed")
	ordered.SetMessageGroup("group")
	delayed.SetDelayTimestamp(time.Now().Add(2 * time.Second))
	for _, one := range []*rmq.Message{ordered, delayed} {
		_, err := producer.Send(ctx, one)
		must(err)
	}
	for _, body := range []string{"committed", "rolled back", "checked"} {
		transaction := producer.BeginTransaction()
		_, err := producer.SendWithTransaction(ctx, message(body), transaction)
		must(err)
		if body == "committed" {
			must(transaction.Commit())
		} else if body == "rolled back" {
			must(transaction.RollBack())
		}
	}
}
