// The driver of five_lines.py for Node.js, as lines.py is for Python: endpoint, `plain` or `tls`, access key, secret key.
const readline = require('node:readline');
const {
  Producer, PushConsumer, SimpleConsumer, LitePushConsumerImpl, ConsumeResult, FilterExpression,
} = require('rocketmq-client-nodejs');

const [endpoint, tls, access, secret] = process.argv.slice(2);
// An order may name another door, or another account than the process was given; an empty access key is none.
function where(order) {
  const made = {
    endpoints: order.endpoint ?? endpoint, namespace: '', sslEnabled: tls === 'tls', requestTimeout: 15000,
  };
  const accessKey = order.access ?? access;
  if (accessKey) made.sessionCredentials = { accessKey, accessSecret: order.secret ?? secret };
  return made;
}
const [UNKNOWN, COMMIT, ROLLBACK] = [0, 1, 2];
const SQL = 2;
const LARGE = 200; // bytes of a body that is not shown
const clients = new Map();
const transactions = new Map();
const got = new Map();
const say = (values) => console.log(JSON.stringify(values));

function show(who, one) {
  const body = one.body.toString();
  got.set(`${who} ${body}`, one);
  say({
    step: 'got', who, body: body.length < LARGE ? body : `large ${body.length}`, attempt: one.deliveryAttempt ?? 1,
    tag: one.tag ?? '', keys: [...one.keys].sort().join(' '), property: one.properties.get('a') ?? '',
    group: one.messageGroup ?? '', lite: one.liteTopic ?? '', priority: String(one.priority ?? 0),
  });
}

function message(order) {
  const made = { topic: order.topic, body: Buffer.from(order.body.repeat(Number(order.times ?? 1))) };
  if (order.tag) made.tag = order.tag;
  if (order.key) made.keys = [order.key];
  if (order.property) made.properties = new Map([['a', order.property]]);
  if (order.group) made.messageGroup = order.group;
  if (order.lite) made.liteTopic = order.lite;
  if (order.priority) made.priority = Number(order.priority);
  if (order.delay) made.deliveryTimestamp = new Date(Date.now() + 1000 * Number(order.delay));
  return made;
}

const subscriptions = (order) => new Map([
  [order.topic, order.sql ? new FilterExpression(order.sql, SQL) : new FilterExpression(order.tags ?? '*')],
]);

const listener = (order) => ({
  async consume(one) {
    show(order.name, one);
    const fails = one.body.toString().startsWith('fails') && (one.deliveryAttempt ?? 1) <= Number(order.fails ?? 0);
    return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
  },
});

async function start(order, made) {
  await made.startup();
  clients.set(order.name, made);
}

const verbs = {
  producer: (order) => start(order, new Producer({
    ...where(order), topics: [order.topic],
    checker: {
      async check(one) {
        const body = one.body.toString();
        say({ step: 'check', who: order.name, body });
        return { commit: COMMIT, rollback: ROLLBACK }[body.split(' ')[0]] ?? UNKNOWN;
      },
    },
  })),
  send: async (order) => (await clients.get(order.name).send(message(order))).recallHandle,
  async half(order) {
    const made = clients.get(order.name).beginTransaction();
    await clients.get(order.name).send(message(order), made);
    transactions.set(order.transaction, made);
  },
  async end(order) {
    const made = transactions.get(order.transaction);
    await (order.how === 'commit' ? made.commit() : made.rollback());
  },
  async recall(order) { await clients.get(order.name).recallMessage(order.topic, order.handle); },
  simple: (order) => start(order, new SimpleConsumer({
    ...where(order), consumerGroup: order.group, subscriptions: subscriptions(order), awaitDuration: 1000 * Number(order.wait),
  })),
  async receive(order) {
    const found = await clients.get(order.name).receive(Number(order.count), 1000 * Number(order.invisible));
    found.forEach((one) => show(order.name, one));
    return String(found.length);
  },
  ack: (order) => clients.get(order.name).ack(got.get(`${order.name} ${order.body}`)),
  change: (order) => clients.get(order.name)
    .changeInvisibleDuration(got.get(`${order.name} ${order.body}`), 1000 * Number(order.invisible)),
  push: (order) => start(order, new PushConsumer({
    ...where(order), consumerGroup: order.group, subscriptions: subscriptions(order), messageListener: listener(order),
  })),
  lite: (order) => start(order, new LitePushConsumerImpl({
    ...where(order), consumerGroup: order.group, bindTopic: order.topic, messageListener: listener(order),
    subscriptions: new Map([[order.topic, FilterExpression.SUB_ALL]]),
  })),
  async lite_simple() { throw new Error('not in this client: lite_simple'); },
  subscribe: (order) => clients.get(order.name).subscribeLite(order.lite),
  unsubscribe: (order) => clients.get(order.name).unsubscribeLite(order.lite),
  async close(order) {
    await clients.get(order.name).shutdown();
    clients.delete(order.name);
  },
};

const told = (error) => (error.message.startsWith('not in this client')
  ? error.message : `${error.name} ${error.code ?? ''} ${error.message}`);
process.on('unhandledRejection', (error) => console.error('unhandled', error));
say({ step: 'ready' });
readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  const [verb, ...words] = line.split('\t');
  const order = Object.fromEntries(words.map((word) => [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)]));
  try {
    say({ step: 'done', number: order.number, text: (await verbs[verb](order)) ?? '' });
  } catch (error) {
    say({ step: 'failed', number: order.number, text: told(error) });
  }
});
