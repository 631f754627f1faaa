// The driver of five_lines.py for Go, as lines.py is for Python: endpoint, plain or tls, access key, secret key.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const large = 200 // bytes of a body that is not shown

type order map[string]string

// What the clients have in common.
type client interface{ GracefulStop() error }

var (
	writing      sync.Mutex
	clients      sync.Map
	transactions sync.Map
	got          sync.Map
)

func say(values map[string]any) {
	line, _ := json.Marshal(values)
	writing.Lock()
	defer writing.Unlock()
	fmt.Printf("%s\n", line)
}

func (o order) number(key string) int {
	number, _ := strconv.Atoi(o[key])
	return number
}

func (o order) seconds(key string) time.Duration { return time.Duration(o.number(key)) * time.Second }

func (o order) where() *rmq.Config {
	return &rmq.Config{Endpoint: o.given("endpoint", 1), ConsumerGroup: o["group"], Credentials: &credentials.SessionCredentials{
		AccessKey: o.given("access", 3), AccessSecret: o.given("secret", 4),
	}}
}

// An order may name another door, or another account than the process was given; an empty access key is none.
func (o order) given(key string, number int) string {
	if value, own := o[key]; own {
		return value
	}
	if number < len(os.Args) {
		return os.Args[number]
	}
	return ""
}

func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

func show(who string, one *rmq.MessageView) {
	body := string(one.GetBody())
	got.Store(who+" "+body, one)
	if len(body) >= large {
		body = fmt.Sprint("large ", len(body))
	}
	found := append([]string{}, one.GetKeys()...)
	sort.Strings(found)
	say(map[string]any{
		"step": "got", "who": who, "body": body, "attempt": one.GetDeliveryAttempt(), "tag": text(one.GetTag()),
		"keys": strings.Join(found, " "), "property": one.GetProperties()["a"], "group": text(one.GetMessageGroup()),
		"lite": one.GetLiteTopic(),
	})
}

func (o order) message() *rmq.Message {
	times := max(1, o.number("times"))
	made := &rmq.Message{Topic: o["topic"], Body: []byte(strings.Repeat(o["body"], times))}
	for key, value := range o {
		switch key {
		case "tag":
			made.SetTag(value)
		case "key":
			made.SetKeys(value)
		case "property":
			made.AddProperty("a", value)
		case "lite":
			made.SetLiteTopic(value)
		case "priority":
			_ = made.SetPriority(int32(o.number(key)))
		case "delay":
			made.SetDelayTimestamp(time.Now().Add(o.seconds(key)))
		}
	}
	if o["group"] != "" {
		made.SetMessageGroup(o["group"])
	}
	return made
}

func (o order) expressions() map[string]*rmq.FilterExpression {
	if sql, given := o["sql"]; given {
		return map[string]*rmq.FilterExpression{o["topic"]: rmq.NewFilterExpressionWithType(sql, rmq.SQL92)}
	}
	if tags, given := o["tags"]; given {
		return map[string]*rmq.FilterExpression{o["topic"]: rmq.NewFilterExpression(tags)}
	}
	return map[string]*rmq.FilterExpression{o["topic"]: rmq.SUB_ALL}
}

func (o order) listener() rmq.MessageListener {
	return &rmq.FuncMessageListener{Consume: func(one *rmq.MessageView) rmq.ConsumerResult {
		show(o["name"], one)
		if strings.HasPrefix(string(one.GetBody()), "fails") && int(one.GetDeliveryAttempt()) <= o.number("fails") {
			return rmq.FAILURE
		}
		return rmq.SUCCESS
	}}
}

func (o order) producer() (rmq.Producer, error) {
	return rmq.NewProducer(o.where(), rmq.WithTopics(o["topic"]),
		rmq.WithTransactionChecker(&rmq.TransactionChecker{Check: func(one *rmq.MessageView) rmq.TransactionResolution {
			body := string(one.GetBody())
			say(map[string]any{"step": "check", "who": o["name"], "body": body})
			switch strings.Split(body, " ")[0] {
			case "commit":
				return rmq.COMMIT
			case "rollback":
				return rmq.ROLLBACK
			}
			return rmq.UNKNOWN
		}}))
}

func started[C interface {
	client
	Start() error
}](o order, made C, err error) error {
	if err == nil {
		err = made.Start()
	}
	if err == nil {
		clients.Store(o["name"], made)
	}
	return err
}

func (o order) obey(verb string) (string, error) {
	ctx := context.Background()
	made, _ := clients.Load(o["name"])
	switch verb {
	case "producer":
		one, err := o.producer()
		return "", started(o, one, err)
	case "send":
		receipts, err := made.(rmq.Producer).Send(ctx, o.message())
		if err != nil {
			return "", err
		}
		return receipts[0].RecallHandle, nil
	case "half":
		transaction := made.(rmq.Producer).BeginTransaction()
		_, err := made.(rmq.Producer).SendWithTransaction(ctx, o.message(), transaction)
		transactions.Store(o["transaction"], transaction)
		return "", err
	case "end":
		transaction, _ := transactions.Load(o["transaction"])
		if o["how"] == "commit" {
			return "", transaction.(rmq.Transaction).Commit()
		}
		return "", transaction.(rmq.Transaction).RollBack()
	case "recall":
		return made.(rmq.Producer).Recall(ctx, o["topic"], o["handle"])
	case "simple":
		one, err := rmq.NewSimpleConsumer(o.where(), rmq.WithSimpleAwaitDuration(o.seconds("wait")),
			rmq.WithSimpleSubscriptionExpressions(o.expressions()))
		return "", started(o, one, err)
	case "receive":
		found, err := made.(rmq.SimpleConsumer).Receive(ctx, int32(o.number("count")), o.seconds("invisible"))
		if err != nil && strings.Contains(err.Error(), "MESSAGE_NOT_FOUND") {
			err = nil
		}
		for _, one := range found {
			show(o["name"], one)
		}
		return fmt.Sprint(len(found)), err
	case "ack", "change":
		one, _ := got.Load(o["name"] + " " + o["body"])
		if verb == "ack" {
			return "", made.(rmq.SimpleConsumer).Ack(ctx, one.(*rmq.MessageView))
		}
		return "", made.(rmq.SimpleConsumer).ChangeInvisibleDuration(one.(*rmq.MessageView), o.seconds("invisible"))
	case "push":
		one, err := rmq.NewPushConsumer(o.where(), rmq.WithPushAwaitDuration(5*time.Second),
			rmq.WithPushSubscriptionExpressions(o.expressions()), rmq.WithPushMessageListener(o.listener()))
		return "", started(o, one, err)
	case "lite":
		one, err := rmq.NewLitePushConsumer(o.where(), rmq.NewLitePushConsumerConfig(o["topic"], 30*time.Second),
			rmq.WithPushAwaitDuration(5*time.Second), rmq.WithPushMessageListener(o.listener()))
		return "", started(o, one, err)
	case "lite_simple":
		return "", fmt.Errorf("not in this client: %s", verb)
	case "subscribe":
		return "", made.(rmq.LitePushConsumer).SubscribeLite(o["lite"])
	case "unsubscribe":
		return "", made.(rmq.LitePushConsumer).UnSubscribeLite(o["lite"])
	case "close":
		clients.Delete(o["name"])
		return "", made.(client).GracefulStop()
	}
	return "", fmt.Errorf("no verb %s", verb)
}

func (o order) answered(verb string) {
	defer func() {
		if reason := recover(); reason != nil {
			say(map[string]any{"step": "failed", "number": o["number"], "text": fmt.Sprint(reason)})
		}
	}()
	found, err := o.obey(verb)
	if err != nil {
		code := ""
		if status, known := rmq.AsErrRpcStatus(err); known {
			code = fmt.Sprint(status.GetCode(), " ")
		}
		say(map[string]any{"step": "failed", "number": o["number"], "text": code + err.Error()})
		return
	}
	say(map[string]any{"step": "done", "number": o["number"], "text": found})
}

func main() {
	rmq.EnableSsl = os.Args[2] == "tls"
	say(map[string]any{"step": "ready"})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		made := order{}
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			made[key] = value
		}
		go made.answered(words[0])
	}
}
