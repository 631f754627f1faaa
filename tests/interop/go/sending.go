package main

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const tooBigBytes = 5 << 20 // above maxMessageSize, which is 4 MiB

// Client of its own: producers and consumers of one instance share a connection and a client id.
func producerOf(instance string, more ...producer.Option) rocketmq.Producer {
	options := append([]producer.Option{producer.WithNameServer(nameServers), producer.WithGroupName(group + "_" + instance),
		producer.WithInstanceName(instance), producer.WithCredentials(account)}, more...)
	p, err := rocketmq.NewProducer(options...)
	must(err)
	must(p.Start())
	return p
}

// Questions and answers; "silence" gets none. The consumer is of the asker's instance: the heartbeat of its start
// introduces the asker, too, whose own first one comes a second later: too late for the first reply.
func asks() {
	ctx := context.Background()
	replier, asker := producerOf("replier"), producerOf("asker")
	c := newConsumer(group, "asker")
	listen(c, consumer.MessageSelector{}, func(m *primitive.MessageExt) consumer.ConsumeResult {
		if string(m.Body) == "silence" {
			return consumer.ConsumeSuccess
		}
		reply, err := consumer.CreateReplyMessage(m, nil)
		must(err)
		reply.Body = append([]byte("answer to "), m.Body...) // CreateReplyMessage of this version leaves it out
		r, err := replier.SendSync(ctx, reply)
		must(err)
		step("answered", fields{"status": r.Status == primitive.SendOK})
		return consumer.ConsumeSuccess
	})
	for _, question := range []string{"question 0", "question 1"} {
		reply, err := asker.Request(ctx, time.Minute, message("ask", "TagA", question))
		must(err)
		step("reply", fields{"body": string(reply.Body)})
	}
	heard := make(chan string, 2) // this version calls back for the reply, and again when it forgets the request
	must(asker.RequestAsync(ctx, time.Minute, func(_ context.Context, reply *primitive.Message, err error) {
		must(err)
		heard <- string(reply.Body)
	}, message("ask", "TagA", "question async")))
	step("reply", fields{"body": <-heard})
	_, err := asker.Request(ctx, time.Second, message("ask", "TagA", "silence"))
	step("no reply", fields{"timeout": err != nil && strings.Contains(err.Error(), "timeout")})
	must(c.Shutdown())
	must(asker.Shutdown())
	must(replier.Shutdown())
}

// A body that is too big, one that cannot be compressed; and one that is not.
func exceeds() {
	p := newProducer()
	body := make([]byte, tooBigBytes)
	_, err := rand.Read(body)
	must(err)
	_, err = p.SendSync(context.Background(), primitive.NewMessage(topic, body))
	if err != nil {
		step("refused", fields{"error": err.Error()})
	}
	r, err := p.SendSync(context.Background(), message("after", "TagA", "after"))
	sent("after", r, err)
	must(p.Shutdown())
}

func newTransactionProducer() rocketmq.TransactionProducer {
	p, err := rocketmq.NewTransactionProducer(listener{}, producer.WithNameServer(nameServers), producer.WithGroupName(group),
		producer.WithCredentials(account))
	must(err)
	must(p.Start())
	return p
}

// Leaves a half behind: the test kills it.
func leaves() {
	p := newTransactionProducer()
	_, err := p.SendMessageInTransaction(context.Background(), message("left-then-commit", "TagA", "left behind"))
	must(err)
	step("left", nil)
	untilLine()
	must(p.Shutdown())
}

// Is asked about what another producer of its group has left behind, and reads what comes of it. Producer and consumer
// are of one instance: the heartbeat of the consumer's start registers the producer as well.
func inherits() {
	p := newTransactionProducer()
	c := newConsumer(group+"_reader", "DEFAULT")
	listen(c, consumer.MessageSelector{}, seen("heir"))
	step("ready", nil)
	untilLine()
	must(c.Shutdown())
	must(p.Shutdown())
}

// A traced message, and its traces.
func traces() {
	config := &primitive.TraceConfig{TraceTopic: topic + "Traces", GroupName: group + "_traces", Access: primitive.Local,
		NamesrvAddrs: nameServers, Credentials: account}
	p := producerOf("traced_producer", producer.WithTrace(config))
	r, err := p.SendSync(context.Background(), message("traced", "TagA", "traced"))
	sent(r.MsgID, r, err)
	c := newConsumer(group, "traced", consumer.WithTrace(config))
	listen(c, consumer.MessageSelector{}, seen("traced"))
	reader := newConsumer(group+"_reader", "reader")
	listenTo(reader, config.TraceTopic, consumer.MessageSelector{}, func(m *primitive.MessageExt) consumer.ConsumeResult {
		for _, trace := range strings.Split(strings.TrimSuffix(string(m.Body), "\x02"), "\x02") {
			step("trace", fields{"fields": strings.Split(trace, "\x01"), "keys": strings.Fields(m.GetKeys())})
		}
		return consumer.ConsumeSuccess
	})
	step("ready", nil)
	untilLine()
	for _, each := range []rocketmq.PushConsumer{c, reader} {
		must(each.Shutdown())
	}
	must(p.Shutdown())
}

// Two teams use one name for a topic and a group, each in its namespace. Each message is consumed at the second try.
func namespaces() {
	var started []rocketmq.PushConsumer
	for _, space := range []string{"north", "south"} {
		p := producerOf(space, producer.WithNamespace(space))
		r, err := p.SendSync(context.Background(), message(space, "TagA", "for the "+space))
		sent(space, r, err)
		must(p.Shutdown())
		c := newConsumer(group, space+"_consumer", consumer.WithNamespace(space))
		who := space
		must(c.Subscribe(topic, consumer.MessageSelector{}, func(ctx context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			got(who, ms[0])
			if ms[0].ReconsumeTimes == 0 {
				concurrently, _ := primitive.GetConcurrentlyCtx(ctx)
				concurrently.DelayLevelWhenNextConsume = 1
				return consumer.ConsumeRetryLater, nil
			}
			return consumer.ConsumeSuccess, nil
		}))
		must(c.Start())
		raw := newConsumer(group+"_raw_"+space, space+"_raw")
		listenTo(raw, space+"%"+topic, consumer.MessageSelector{}, seen("raw "+space))
		started = append(started, c, raw)
	}
	step("ready", nil)
	untilLine()
	for _, c := range started {
		must(c.Shutdown())
	}
}
