//! The driver of five_lines.py for Rust, as lines.py is for Python: endpoint, plain or tls, access key, secret key.
//!
//! The client 5.0.0 has no push consumer, and knows no change of the invisible time, no recall, priorities or lite topics.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, LoggingFormat, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{Message, MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Value};
use tokio::sync::oneshot;

/// Bytes of a body that is not shown.
const LARGE: usize = 200;

type Order = HashMap<String, String>;
type Answer = Result<String, String>;
type Ending = oneshot::Sender<(bool, oneshot::Sender<Answer>)>;

#[derive(Clone)]
enum Client {
    Producer(Arc<Producer>),
    Simple(Arc<SimpleConsumer>, Order),
}

#[derive(Default)]
struct Held {
    clients: HashMap<String, Client>,
    /// A transaction ends in the task that began it: its type has no name outside the client.
    transactions: HashMap<String, Ending>,
    got: HashMap<String, Arc<MessageView>>,
}

type Shared = Arc<Mutex<Held>>;

fn say(values: Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{values}").unwrap();
    out.flush().unwrap();
}

fn told(error: ClientError) -> String {
    format!("{error} {:?}", error.context())
}

fn where_to(order: &Order) -> ClientOption {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut made = ClientOption::default();
    let given = |key: &str, number: usize| order.get(key).or(words.get(number)).cloned().unwrap_or_default();
    made.set_access_url(given("endpoint", 0));
    made.set_enable_tls(words[1] == "tls");
    made.set_timeout(Duration::from_secs(15));
    // An order may name another account than the process was given; an empty access key is none.
    if !given("access", 2).is_empty() {
        made.set_access_key(given("access", 2));
        made.set_secret_key(given("secret", 3));
    }
    if let Some(wait) = order.get("wait") {
        // The client gives up the call after this time alone, and Apache's proxy refuses one that has less than 5 s left.
        made.set_long_polling_timeout(Duration::from_secs(wait.parse::<u64>().unwrap().max(8)));
    }
    made
}

fn message(order: &Order, half: bool) -> Result<impl Message, ClientError> {
    let times: usize = order.get("times").map_or(1, |times| times.parse().unwrap());
    let mut made = MessageBuilder::builder()
        .set_topic(&order["topic"])
        .set_body(order["body"].repeat(times).into_bytes());
    if let Some(tag) = order.get("tag") {
        made = made.set_tag(tag);
    }
    if let Some(key) = order.get("key") {
        made = made.set_keys(vec![key]);
    }
    if let Some(property) = order.get("property") {
        made = made.set_properties(HashMap::from([("a", property)]));
    }
    if let Some(group) = order.get("group") {
        made = made.set_message_group(group);
    }
    if let Some(delay) = order.get("delay") {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        made = made.set_delivery_timestamp(now + delay.parse::<i64>().unwrap());
    }
    if half {
        made = made.enable_transaction();
    }
    made.build()
}

fn show(held: &Shared, who: &str, one: MessageView) {
    let body = String::from_utf8_lossy(one.body()).into_owned();
    let mut keys = one.keys().to_vec();
    keys.sort();
    let shown = if body.len() < LARGE { body.clone() } else { format!("large {}", body.len()) };
    say(json!({
        "step": "got", "who": who, "body": shown, "attempt": one.delivery_attempt(), "tag": one.tag().unwrap_or(""),
        "keys": keys.join(" "), "property": one.properties().get("a").map_or("", |value| value),
        "group": one.message_group().unwrap_or(""),
    }));
    held.lock().unwrap().got.insert(format!("{who} {body}"), Arc::new(one));
}

async fn producer(order: &Order) -> Result<Client, ClientError> {
    let mut option = ProducerOption::default();
    option.set_logging_format(LoggingFormat::Json);
    option.set_topics(vec![order["topic"].clone()]);
    option.set_validate_message_type(false);
    let name = order["name"].clone();
    let mut made = Producer::new_transaction_producer(
        option,
        where_to(order),
        Box::new(move |_, one| {
            let body = String::from_utf8_lossy(one.body()).into_owned();
            say(json!({"step": "check", "who": name, "body": body}));
            match body.split(' ').next() {
                Some("commit") => TransactionResolution::COMMIT,
                Some("rollback") => TransactionResolution::ROLLBACK,
                _ => TransactionResolution::UNKNOWN,
            }
        }),
    )?;
    made.start().await?;
    Ok(Client::Producer(Arc::new(made)))
}

async fn simple(order: &Order) -> Result<Client, ClientError> {
    let mut option = SimpleConsumerOption::default();
    option.set_logging_format(LoggingFormat::Json);
    option.set_topics(vec![order["topic"].clone()]);
    option.set_consumer_group(order["group"].clone());
    let mut made = SimpleConsumer::new(option, where_to(order))?;
    made.start().await?;
    Ok(Client::Simple(Arc::new(made), order.clone()))
}

async fn half(held: &Shared, made: Arc<Producer>, order: Order) -> Answer {
    let (began, begun) = oneshot::channel::<Answer>();
    let (ending, ended) = oneshot::channel::<(bool, oneshot::Sender<Answer>)>();
    held.lock().unwrap().transactions.insert(order["transaction"].clone(), ending);
    tokio::spawn(async move {
        let sent = match message(&order, true) {
            Ok(one) => made.send_transaction_message(one).await.map_err(told),
            Err(error) => Err(told(error)),
        };
        match sent {
            Err(error) => began.send(Err(error)).unwrap(),
            Ok(transaction) => {
                began.send(Ok(String::new())).unwrap();
                let Ok((commits, answer)) = ended.await else { return };
                let done = if commits { transaction.commit().await } else { transaction.rollback().await };
                let _ = answer.send(done.map(|()| String::new()).map_err(told));
            }
        }
    });
    begun.await.map_err(|error| error.to_string())?
}

async fn end(held: &Shared, order: &Order) -> Answer {
    let ending = held.lock().unwrap().transactions.remove(&order["transaction"]).ok_or("no such transaction")?;
    let (answer, answered) = oneshot::channel();
    ending.send((order["how"] == "commit", answer)).map_err(|_| "the transaction is over")?;
    answered.await.map_err(|error| error.to_string())?
}

async fn receive(held: &Shared, made: &SimpleConsumer, from: &Order, order: &Order) -> Answer {
    let expression = match from.get("sql") {
        Some(sql) => FilterExpression::new(FilterType::Sql, sql),
        None => FilterExpression::new(FilterType::Tag, from.get("tags").map_or("*", |tags| tags)),
    };
    let invisible = Duration::from_secs(order["invisible"].parse().unwrap());
    let count = order["count"].parse().unwrap();
    let found = made.receive_with(&from["topic"], &expression, count, invisible).await.map_err(told)?;
    let number = found.len();
    for one in found {
        show(held, &order["name"], one);
    }
    Ok(number.to_string())
}

async fn obey(held: &Shared, verb: &str, order: Order) -> Answer {
    let name = order.get("name").cloned().unwrap_or_default();
    let client = held.lock().unwrap().clients.get(&name).cloned();
    if let Some(word) = ["priority", "lite"].into_iter().find(|word| order.contains_key(*word)) {
        return Err(format!("not in this client: {word}"));
    }
    match (verb, client) {
        ("producer", _) => {
            let made = producer(&order).await.map_err(told)?;
            held.lock().unwrap().clients.insert(name, made);
        }
        ("simple", _) => {
            let made = simple(&order).await.map_err(told)?;
            held.lock().unwrap().clients.insert(name, made);
        }
        ("send", Some(Client::Producer(made))) => {
            made.send(message(&order, false).map_err(told)?).await.map_err(told)?;
        }
        ("half", Some(Client::Producer(made))) => return half(held, made, order).await,
        ("end", _) => return end(held, &order).await,
        ("receive", Some(Client::Simple(made, from))) => return receive(held, &made, &from, &order).await,
        ("ack", Some(Client::Simple(made, _))) => {
            let one = held.lock().unwrap().got.get(&format!("{name} {}", order["body"])).cloned();
            made.ack(&*one.ok_or("not received")?).await.map_err(told)?;
        }
        ("close", Some(_)) => {
            held.lock().unwrap().clients.remove(&name);
        }
        _ => return Err(format!("not in this client: {verb}")),
    }
    Ok(String::new())
}

#[tokio::main]
async fn main() {
    std::fs::create_dir_all("logs").unwrap(); // where the client writes its log, or else ends
    let held = Shared::default();
    say(json!({"step": "ready"}));
    let (orders, mut ordered) = tokio::sync::mpsc::unbounded_channel::<String>();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let _ = orders.send(line.unwrap());
        }
    });
    while let Some(line) = ordered.recv().await {
        let mut words = line.split('\t');
        let verb = words.next().unwrap_or_default().to_string();
        let order: Order =
            words.filter_map(|word| word.split_once('=')).map(|(key, value)| (key.into(), value.into())).collect();
        let held = held.clone();
        tokio::spawn(async move {
            let number = order.get("number").cloned();
            match obey(&held, &verb, order).await {
                Ok(text) => say(json!({"step": "done", "number": number, "text": text})),
                Err(text) => say(json!({"step": "failed", "number": number, "text": text})),
            }
        });
    }
}
