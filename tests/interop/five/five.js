// The story of test_five_clients.py: endpoint, topic; for TLS and a signature, access key and secret key.
const { Producer, PushConsumer, SimpleConsumer, ConsumeResult } = require('rocketmq-client-nodejs');

const [endpoints, topic, accessKey, accessSecret] = process.argv.slice(2);
const where = accessKey
  ? { endpoints, namespace: '', sslEnabled: true, sessionCredentials: { accessKey, accessSecret } }
  : { endpoints, namespace: '' };
const COMMIT = 1;
const say = (step, text) => console.log(`{"step": ${JSON.stringify(step)}, "text": ${JSON.stringify(text)}}`);
const message = (body, more) => ({ topic, tag: 'five', body: Buffer.from(body), ...more });

function got(who, one) {
  const text = one.body.toString();
  say(who, text);
  if (text === 'normal 0') {
    say('as sent', `${one.tag} [${one.keys}] ${JSON.stringify(Object.fromEntries(one.properties))}`);
  }
}

async function main() {
  const subscriptions = new Map([[topic, 'five']]);
  const push = new PushConsumer({
    ...where, consumerGroup: `${topic}-push`, subscriptions,
    messageListener: { async consume(one) { got('push', one); return ConsumeResult.SUCCESS; } },
  });
  await push.startup();
  const producer = new Producer({
    ...where, topics: [topic],
    checker: { async check(one) { say('check', one.body.toString()); return COMMIT; } },
  });
  await producer.startup();
  for (let number = 0; number < 3; number++) {
    await producer.send(message(`normal ${number}`, { keys: [`k${number}`], properties: new Map([['a', 'b']]) }));
  }
  await producer.send(message('ordered', { messageGroup: 'group' }));
  await producer.send(message('delayed', { deliveryTimestamp: new Date(Date.now() + 2000) }));
  let transaction = producer.beginTransaction();
  await producer.send(message('committed'), transaction);
  await transaction.commit();
  transaction = producer.beginTransaction();
  await producer.send(message('rolled back'), transaction);
  await transaction.rollback();
  await producer.send(message('checked'), producer.beginTransaction());
  const simple = new SimpleConsumer({ ...where, consumerGroup: `${topic}-simple`, subscriptions });
  await simple.startup();
  try {
    await producer.send({ topic: 'Nothing', body: Buffer.from('x') });
  } catch (error) {
    say('refused', `${error.message} ${error.code}`.includes('40402') ? '40402' : String(error));
  }
  say('ready', '');
  for (;;) {
    for (const one of await simple.receive(16, 30_000)) {
      got('simple', one);
      await simple.ack(one);
    }
  }
}

main().catch((error) => { console.error(error); process.exit(1); });
