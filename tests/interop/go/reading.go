package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const queues = 4

func sendToQueues(p rocketmq.Producer, text string) {
	for queue := 0; queue < queues; queue++ {
		m := message(text, "TagA", fmt.Sprint(text, " ", queue))
		m.Queue = &primitive.MessageQueue{Topic: topic, BrokerName: "broker-a", QueueId: queue}
		r, err := p.SendSync(context.Background(), m)
		sent(text, r, err)
	}
}

// For each line one message to each queue, until a line "end".
func feeds() {
	p := producerOf("feeder", producer.WithQueueSelector(producer.NewManualQueueSelector()))
	step("ready", nil)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() && lines.Text() != "end" {
		sendToQueues(p, lines.Text())
	}
	must(p.Shutdown())
}

// One of the members of a group.
func belongs() {
	c := newConsumer(group, "DEFAULT")
	listen(c, consumer.MessageSelector{}, seen("member"))
	step("ready", nil)
	untilLine()
	must(c.Shutdown())
}

// Groups with SQL92 selectors: one that is there before the messages, one that comes later.
func selects() {
	early := newConsumer(group+"_early", "early")
	listen(early, consumer.MessageSelector{Type: consumer.SQL92, Expression: "amount > 2 AND shade = 'red'"}, seen("early"))
	p := newProducer()
	for amount := 0; amount < 8; amount++ {
		m := message("sql", "TagA", fmt.Sprint("amount ", amount))
		m.WithProperty("amount", fmt.Sprint(amount))
		m.WithProperty("shade", []string{"blue", "red"}[amount%2])
		r, err := p.SendSync(context.Background(), m)
		sent("sql", r, err)
	}
	late := newConsumer(group+"_late", "late")
	listen(late, consumer.MessageSelector{Type: consumer.SQL92, Expression: "amount BETWEEN 2 AND 4 OR amount = 7"}, seen("late"))
	step("ready", nil)
	untilLine()
	must(early.Shutdown())
	must(late.Shutdown())
	must(p.Shutdown())
}

func newPullConsumer(name, instance string, more ...consumer.Option) rocketmq.PullConsumer {
	options := append([]consumer.Option{consumer.WithNameServer(nameServers), consumer.WithGroupName(name), consumer.WithInstance(instance),
		consumer.WithCredentials(account)}, more...)
	c, err := rocketmq.NewPullConsumer(options...)
	must(err)
	must(c.Subscribe(topic, consumer.MessageSelector{}))
	must(c.Start())
	return c
}

// Polls once from each queue: all are assigned then.
func poll(c rocketmq.PullConsumer, use func(request *consumer.ConsumeRequest)) {
	for count := 0; count < queues; {
		request, err := c.Poll(context.Background(), time.Second)
		if consumer.IsNoNewMsgError(err) {
			continue
		}
		must(err)
		count += len(request.GetMsgList())
		use(request)
	}
}

// Polls what is assigned, and acknowledges it.
func polls(text string) {
	c := newPullConsumer(group+"_polls", "polls "+text)
	poll(c, func(request *consumer.ConsumeRequest) {
		for _, m := range request.GetMsgList() {
			got("polled "+text, m)
		}
		c.ACK(context.Background(), request, consumer.ConsumeSuccess)
	})
	must(c.Shutdown())
}

// Pulls by hand: from each queue where the group is, then from the beginning of one. Offsets that are set before a queue
// is assigned are forgotten, hence the polls whose messages are not acknowledged.
func pullsByHand(text string) {
	ctx := context.Background()
	c := newPullConsumer(group+"_hand", "hand "+text)
	poll(c, func(*consumer.ConsumeRequest) {})
	for number := 0; number < queues; number++ {
		queue := &primitive.MessageQueue{Topic: topic, BrokerName: "broker-a", QueueId: number}
		offset, err := c.CurrentOffset(queue)
		must(err)
		result, err := c.PullFrom(ctx, queue, offset, 32)
		must(err)
		for _, m := range result.GetMessageExts() {
			got("by hand "+text, m)
		}
		must(c.UpdateOffset(queue, result.NextBeginOffset))
	}
	must(c.PersistOffset(ctx, topic))
	again, err := c.PullFrom(ctx, &primitive.MessageQueue{Topic: topic, BrokerName: "broker-a", QueueId: 2}, 0, 1)
	must(err)
	for _, m := range again.GetMessageExts() {
		got("again "+text, m)
	}
	must(c.Shutdown())
}

// Pulls from one queue after the other, whichever the client takes. The order of its rounds changes when the queues are
// assigned. Broadcasting, since the rounds of a clustering group include the empty retry topic, and wait there.
func pullsInTurn() {
	c := newPullConsumer(group+"_turn", "turn", consumer.WithConsumerModel(consumer.BroadCasting),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	for read := map[int]bool{}; len(read) < queues; {
		result, err := c.Pull(context.Background(), 32)
		must(err)
		for _, m := range result.GetMessageExts() {
			got("in turn", m)
			read[m.Queue.QueueId] = true
		}
	}
	must(c.Shutdown())
}

// Each group goes on where it was.
func pulls() {
	p := producerOf("feeder", producer.WithQueueSelector(producer.NewManualQueueSelector()))
	for _, text := range []string{"one", "two"} {
		sendToQueues(p, text)
		pullsByHand(text)
		polls(text)
	}
	pullsInTurn()
	must(p.Shutdown())
}
