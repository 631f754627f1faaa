// Plays one scenario with the official Go client: driver NAME_SERVERS SCENARIO TOPIC GROUP.
// It prints one JSON object a line, as the Java drivers do.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var (
	nameServers = strings.Split(os.Args[1], ";")
	topic       = os.Args[3]
	group       = os.Args[4]
	printing    sync.Mutex
	// Who signs, where servers have users; see guarded.py.
	account = primitive.Credentials{AccessKey: os.Getenv("LAB_USER"), SecretKey: os.Getenv("LAB_SECRET")}
)

type fields map[string]interface{}

func step(name string, more fields) {
	line := fields{"step": name}
	for key, value := range more {
		line[key] = value
	}
	text, err := json.Marshal(line)
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

func message(key, tag, body string) *primitive.Message {
	m := primitive.NewMessage(topic, []byte(body)).WithTag(tag).WithKeys([]string{key})
	m.WithProperty("color", "grün")
	return m
}

func sent(what string, result *primitive.SendResult, err error) {
	must(err)
	step("sent", fields{"what": what, "status": result.Status == primitive.SendOK, "queue": result.MessageQueue.QueueId})
}

func got(who string, m *primitive.MessageExt) {
	step("got", fields{"who": who, "body": string(m.Body), "tag": m.GetTags(), "keys": m.GetKeys(), "queue": m.Queue.QueueId,
		"offset": m.QueueOffset, "times": m.ReconsumeTimes, "color": m.GetProperty("color"), "topic": m.Topic})
}

func newProducer() rocketmq.Producer {
	p, err := rocketmq.NewProducer(producer.WithNameServer(nameServers), producer.WithGroupName(group+"_p"), producer.WithRetry(2),
		producer.WithCredentials(account), producer.WithQueueSelector(producer.NewHashQueueSelector()))
	must(err)
	must(p.Start())
	return p
}

func sends() {
	ctx := context.Background()
	p := newProducer()
	for i := 0; i < 10; i++ {
		r, err := p.SendSync(ctx, message(fmt.Sprint("key", i), []string{"TagA", "TagB"}[i%2], fmt.Sprint("sync ", i)))
		sent("sync", r, err)
	}
	var waiting sync.WaitGroup
	for i := 0; i < 5; i++ {
		waiting.Add(1)
		must(p.SendAsync(ctx, func(_ context.Context, r *primitive.SendResult, err error) {
			sent("async", r, err)
			waiting.Done()
		}, message(fmt.Sprint("akey", i), "TagA", fmt.Sprint("async ", i))))
	}
	waiting.Wait()
	must(p.SendOneWay(ctx, message("okey", "TagA", "one-way")))
	batch := []*primitive.Message{message("b0", "TagA", "batch 0"), message("b1", "TagB", "batch 1"), message("b2", "TagA", "batch 2")}
	r, err := p.SendSync(ctx, batch...)
	sent("batch", r, err)
	for i := 0; i < 6; i++ {
		r, err := p.SendSync(ctx, message("s", "TagA", fmt.Sprint("ordered ", i)).WithShardingKey("one"))
		sent("ordered", r, err)
	}
	r, err = p.SendSync(ctx, message("big", "TagA", strings.Repeat("long ", 2000)))
	sent("compressed", r, err)
	r, err = p.SendSync(ctx, message("d", "TagA", "delayed").WithDelayTimeLevel(1))
	sent("delayed", r, err)
	must(p.Shutdown())
}

func newConsumer(name, instance string, more ...consumer.Option) rocketmq.PushConsumer {
	options := append([]consumer.Option{consumer.WithNameServer(nameServers), consumer.WithGroupName(name), consumer.WithInstance(instance),
		consumer.WithCredentials(account), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}, more...)
	c, err := rocketmq.NewPushConsumer(options...)
	must(err)
	return c
}

func listen(c rocketmq.PushConsumer, selector consumer.MessageSelector, f func(m *primitive.MessageExt) consumer.ConsumeResult) {
	listenTo(c, topic, selector, f)
}

func listenTo(c rocketmq.PushConsumer, where string, selector consumer.MessageSelector, f func(m *primitive.MessageExt) consumer.ConsumeResult) {
	must(c.Subscribe(where, selector, func(_ context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range ms {
			if result := f(m); result != consumer.ConsumeSuccess {
				return result, nil
			}
		}
		return consumer.ConsumeSuccess, nil
	}))
	must(c.Start())
}

func seen(who string) func(m *primitive.MessageExt) consumer.ConsumeResult {
	return func(m *primitive.MessageExt) consumer.ConsumeResult {
		got(who, m)
		return consumer.ConsumeSuccess
	}
}

func untilLine() { fmt.Fscanln(os.Stdin) }

// Several groups read the same topic at once, each in its own way, until the test says that it is enough.
func consumes() {
	all := newConsumer(group+"_all", "all")
	listen(all, consumer.MessageSelector{}, seen("all"))
	tagged := newConsumer(group+"_tag", "tag")
	listen(tagged, consumer.MessageSelector{Type: consumer.TAG, Expression: "TagB || TagC"}, seen("tag"))
	orderly := newConsumer(group+"_ord", "ord", consumer.WithConsumerOrder(true))
	listen(orderly, consumer.MessageSelector{}, seen("orderly"))
	broadcast := newConsumer(group+"_bro", "bro", consumer.WithConsumerModel(consumer.BroadCasting))
	listen(broadcast, consumer.MessageSelector{}, seen("broadcast"))
	again := newConsumer(group+"_ret", "ret")
	listen(again, consumer.MessageSelector{}, func(m *primitive.MessageExt) consumer.ConsumeResult {
		if string(m.Body) == "sync 3" && m.ReconsumeTimes == 0 {
			return consumer.ConsumeRetryLater
		}
		return seen("retry")(m)
	})
	step("ready", nil)
	untilLine()
	for _, c := range []rocketmq.PushConsumer{all, tagged, orderly, broadcast, again} {
		must(c.Shutdown())
	}
}

type listener struct{}

func (listener) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	switch {
	case strings.HasPrefix(m.GetKeys(), "commit"):
		return primitive.CommitMessageState
	case strings.HasPrefix(m.GetKeys(), "rollback"):
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (listener) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	step("check", fields{"key": m.GetKeys()})
	if strings.Contains(m.GetKeys(), "then-commit") {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

func transactions() {
	p := newTransactionProducer()
	for _, key := range []string{"commit", "rollback", "unknown-then-commit", "unknown-then-rollback"} {
		r, err := p.SendMessageInTransaction(context.Background(), message(key, "TagA", key))
		must(err)
		step("sent", fields{"what": key, "status": r.Status == primitive.SendOK, "state": int(r.State)})
	}
	step("ready", nil)
	untilLine()
	must(p.Shutdown())
}

func administers() {
	a, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver(nameServers)))
	must(err)
	must(a.CreateTopic(context.Background(), admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(os.Args[5])))
	list, err := a.FetchAllTopicList(context.Background())
	must(err)
	sort.Strings(list.TopicList)
	step("topics", fields{"found": strings.Contains(strings.Join(list.TopicList, " "), topic)})
	must(a.DeleteTopic(context.Background(), admin.WithTopicDelete(topic), admin.WithBrokerAddrDelete(os.Args[5])))
	step("deleted", nil)
	must(a.Close())
}

func main() {
	rlog.SetLogLevel("error")
	scenarios := map[string]func(){"sends": sends, "consumes": consumes, "transactions": transactions, "administers": administers,
		"asks": asks, "exceeds": exceeds, "leaves": leaves, "inherits": inherits, "traces": traces, "namespaces": namespaces,
		"feeds": feeds, "belongs": belongs, "selects": selects, "pulls": pulls}
	scenarios[os.Args[2]]()
	time.Sleep(10 * time.Millisecond)
	step("done", nil)
}
