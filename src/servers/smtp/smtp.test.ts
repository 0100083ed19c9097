/** The whole listener, over real sockets: cases that a plain dialogue in dialogues/ cannot express. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import { createTransport } from 'nodemailer';
import { readCertificate } from '../../../test/support/certificate.ts';
import { DialogueClient } from '../../../test/support/smtp/dialogue.ts';
import { RecordingDelivery, submissionTo } from '../../../test/support/smtp/recording-delivery.ts';
import { startListener, type TestListener } from '../../../test/support/smtp/start-listener.ts';
import type { InboundEnvelope } from '../../mail/delivery/delivery.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { SmtpLimits, SmtpOptions } from './smtp.ts';

/** Connects and says EHLO. */
async function greet({ port }: TestListener): Promise<DialogueClient> {
  const client = await DialogueClient.connect(port);
  await client.reply();
  await client.ask('EHLO client.test');
  return client;
}

/** Sends commands up to `354`. */
async function startMessage(
  target: TestListener,
  recipient = 'alice@acme.test',
): Promise<DialogueClient> {
  const client = await greet(target);
  await startData(client, recipient);
  return client;
}

async function startData(client: DialogueClient, recipient = 'alice@acme.test'): Promise<void> {
  await client.ask('MAIL FROM:<bob@remote.test>');
  await client.ask(`RCPT TO:<${recipient}>`);
  assert.match(await client.ask('DATA'), /^354 /);
}

/** Waits until other parts of this process have done something; the runner's timeout ends it. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

/** Keeps the thread from doing anything. */
function stall(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

/** A promise that keeps delivery waiting until it is opened. */
function closeGate({ delivery }: TestListener): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  delivery.gate = promise;
  return resolve;
}

/** Writes the chunk again and again, until the server reads no more for a while. */
async function writeUntilStalled({ socket }: DialogueClient, chunk: string): Promise<number> {
  for (let sent = 1; sent < 1000; sent++) {
    const { promise: taken, resolve } = Promise.withResolvers<true>();
    socket.write(chunk, () => resolve(true));
    if ((await Promise.race([taken, delay(300, false)])) === false) return sent;
  }
  assert.fail('the server took everything');
}

async function startStrict(context: TestContext, options: Partial<SmtpOptions & SmtpLimits> = {}) {
  return startListener(context, { isTrusted: () => false, greetingDelay: 100, ...options });
}

test('a port that is in use is reported', async (context) => {
  const { port } = await startListener(context);
  await assert.rejects(startListener(context, { port }), { code: 'EADDRINUSE' });
});

test('delivery learns how the message came', async (context) => {
  const target = await startListener(context);
  const client = await startMessage(target);
  const reply = await client.ask('hello\r\n.');
  const envelope = target.delivery.messages[0]?.envelope;
  assert.ok(envelope !== undefined);
  const { id, arrival } = envelope;
  const { sessionId } = arrival;
  assert.deepEqual(envelope, {
    id,
    from: 'bob@remote.test',
    to: ['alice@acme.test'],
    arrival: {
      protocol: 'ESMTP',
      heloName: 'client.test',
      remoteAddress: '127.0.0.1',
      sessionId,
    },
  } satisfies InboundEnvelope);
  assert.equal(reply, `250 2.0.0 Accepted as ${id}`);

  await client.ask('STARTTLS');
  await client.startTls();
  await client.ask('EHLO secret.test');
  await client.ask('MAIL FROM:<>');
  await client.ask('RCPT TO:<alice@acme.test>');
  await client.ask('DATA');
  await client.ask('hello\r\n.');
  assert.deepEqual(target.delivery.messages[1]?.envelope.arrival, {
    protocol: 'ESMTPS',
    heloName: 'secret.test',
    remoteAddress: '127.0.0.1',
    tls: 'TLSv1.3 TLS_AES_256_GCM_SHA384',
    sessionId,
  });
  client.destroy();
});

test('250 comes after delivery has accepted the message, not before', async (context) => {
  const target = await startListener(context);
  const open = closeGate(target);
  const client = await startMessage(target);
  const read = target.delivery.settled();
  client.send('hello\r\n.\r\nNOOP\r\n');
  await read;
  // Give a wrong reply the time to arrive.
  await delay(50);
  assert.deepEqual(client.unread(), []);
  open();
  assert.match(await client.reply(), /^250 2\.0\.0 Accepted/);
  assert.match(await client.reply(), /^250 2\.0\.0 OK/);
  client.destroy();
});

test('an unexpected error is logged with its session, and the client learns nothing about it', async (context) => {
  const target = await startListener(context);
  const client = await startMessage(target, 'broken@acme.test');
  assert.equal(await client.ask('hello\r\n.'), '451 4.3.0 Local error in processing');
  const [entry] = target.log.filter(({ level }) => level === 50);
  assert.match(JSON.stringify(entry), /the database said too much/);
  assert.match(String(entry?.sessionId), /^[0-9a-v]{16}$/);
  client.destroy();
});

test('a database that is away is a reason of its own, in the reply, the counts, the trace and the log', async (context) => {
  const counted: string[] = [];
  const traced: (string | undefined)[] = [];
  const target = await startListener(context, {
    traffic: {
      connected() {},
      disconnected() {},
      command() {},
      refused: (code) => counted.push(code),
    },
    trace: { refused: (_client, { detail }) => void traced.push(detail) },
  });
  const client = await startMessage(target, 'cut@acme.test');
  const said = 'the database cannot be reached right now';
  assert.equal(await client.ask('hello\r\n.'), `451 4.3.0 ${said}`);
  assert.deepEqual(counted, ['unavailable']);
  assert.deepEqual(traced, [`unavailable: ${said}`]);
  const [entry] = target.log.filter(({ level }) => Number(level) >= 40);
  assert.equal(entry?.code, 'unavailable');
  assert.match(JSON.stringify(entry), /ECONNREFUSED/);
  client.destroy();
});

test('mail that is deferred since the database is away is told once, and once when mail is accepted again', async (context) => {
  const target = await startListener(context);
  const client = await greet(target);
  for (const recipient of ['cut', 'cut', 'cut', 'alice'].map((local) => `${local}@acme.test`)) {
    await startData(client, recipient);
    await client.ask('hello\r\n.');
  }
  const told = target.log.filter(({ level }) => Number(level) >= 40);
  assert.deepEqual(
    told.map(({ msg, failures }) => [msg, failures]),
    [
      ['mail is deferred: clients get 451 and will try again', undefined],
      ['mail is accepted again', 3],
    ],
  );
  client.destroy();
});

test('a real client sends a real message over TLS', async (context) => {
  const target = await startListener(context);
  const transport = createTransport({
    host: '127.0.0.1',
    port: target.port,
    requireTLS: true,
    tls: { rejectUnauthorized: false },
  });
  const raw = 'Subject: dots\r\n\r\n.\r\n..\r\n...and so on\r\nGrüße\r\n';
  const sent = await transport.sendMail({
    envelope: { from: 'bob@remote.test', to: ['alice@acme.test', 'nobody@acme.test'] },
    raw,
  });
  assert.deepEqual(sent.accepted, ['alice@acme.test']);
  assert.deepEqual(sent.rejected, ['nobody@acme.test']);
  const [message] = target.delivery.messages;
  assert.equal(message?.content.toString(), raw);
  assert.equal(message?.envelope.arrival.protocol, 'ESMTPS');
  transport.close();
});

test('a large message waits for a delivery that is slow, and arrives whole', async (context) => {
  const recorded = new RecordingDelivery();
  const { promise: ready, resolve: begin } = Promise.withResolvers<void>();
  const target = await startListener(context, {
    maxMessageBytes: 50_000_000,
    delivery: {
      checkRoom: async () => undefined,
      checkRecipient: async () => undefined,
      receive: async (envelope, source) => {
        await ready;
        return recorded.receive(envelope, source);
      },
    },
  });
  const client = await startMessage(target);
  const piece = `${'x'.repeat(70)}\r\n..${'y'.repeat(70)}\r\n`.repeat(500);
  // The kernel's buffers fill up, a few megabytes; then nothing moves until delivery reads.
  const pieces = await writeUntilStalled(client, piece);
  begin();
  assert.match(await client.ask('.'), /^250 /);
  const expected = piece.replaceAll('..', '.').repeat(pieces);
  assert.ok(recorded.messages[0]?.content.equals(Buffer.from(expected)));
  client.destroy();
});

test('a message that delivery does not read is skipped, however long it is', async (context) => {
  const target = await startListener(context, { maxMessageBytes: 50_000_000 });
  const client = await startMessage(target, 'loop@acme.test');
  client.send(`${'x'.repeat(998)}\r\n`.repeat(5000));
  assert.match(await client.ask('.'), /^554 5\.4\.6 /);
  assert.match(await client.ask('NOOP'), /^250 /);
  client.destroy();
});

test('a message over the limit fails for delivery as soon as it is over', async (context) => {
  const target = await startListener(context, { maxMessageBytes: 100_000 });
  const client = await startMessage(target);
  const failed = target.delivery.settled();
  client.send(`${'x'.repeat(998)}\r\n`.repeat(101));
  // The message has not ended yet.
  await failed;
  const [failure] = target.delivery.failures;
  assert.ok(failure instanceof Refusal && failure.code === 'message_too_large');
  client.send(`${'x'.repeat(998)}\r\n`.repeat(5000));
  assert.match(await client.ask('.'), /^552 5\.3\.4 /);
  assert.match(await client.ask('NOOP'), /^250 /);
  assert.deepEqual(target.delivery.messages, []);
  client.destroy();
});

test('a message over the limit is refused, even if delivery accepts it', async (context) => {
  const target = await startListener(context, {
    maxMessageBytes: 10,
    delivery: {
      checkRoom: async () => undefined,
      checkRecipient: async () => undefined,
      receive: async ({ to }) => to.map((recipient) => ({ recipient, result: 'delivered' })),
    },
  });
  const client = await startMessage(target);
  assert.match(await client.ask('more than ten octets\r\n.'), /^552 5\.3\.4 /);
  client.destroy();
});

test('a recipient without an answer of delivery is not accepted', async (context) => {
  const target = await startListener(context, {
    delivery: {
      checkRoom: async () => undefined,
      checkRecipient: async () => undefined,
      receive: async () => [],
    },
  });
  const client = await startMessage(target);
  assert.match(await client.ask('hello\r\n.'), /^451 4\.3\.0 /);
  client.destroy();
});

test('a client that vanishes in a message leaves nothing behind', async (context) => {
  const target = await startListener(context);
  const goodbyes: ((client: DialogueClient) => void)[] = [
    (client) => client.destroy(),
    (client) => client.socket.end(),
    // Up to a dot that is not the end.
    (client) => client.socket.end('\r\n.'),
  ];
  for (const leave of goodbyes) {
    const client = await startMessage(target);
    const failed = target.delivery.settled();
    client.send('half a mess');
    leave(client);
    await failed;
    const failure = target.delivery.failures.at(-1);
    assert.ok(failure instanceof Refusal && failure.code === 'unavailable');
  }
  await until(() => target.listener.served.size === 0);
  assert.deepEqual(target.delivery.messages, []);
  (await greet(target)).destroy();
});

test('a message stays accepted when the client vanishes after it', async (context) => {
  const target = await startListener(context);
  const open = closeGate(target);
  const client = await startMessage(target);
  const read = target.delivery.settled();
  client.send('hello\r\n.\r\n');
  await read;
  client.destroy();
  open();
  assert.match(await target.delivery.next(), /hello/);
});

test('an address may hold only so many connections, however they end', async (context) => {
  const options = { maxPerIp: 2, isTrusted: () => false, greetingDelay: 0 };
  const target = await startListener(context, options);
  const kept = await greet(target);

  const endings: ((client: DialogueClient) => Promise<void>)[] = [
    async (client) => assert.match(await client.ask('QUIT'), /^221 /),
    async (client) => client.destroy(),
    async (client) => void client.socket.end(),
    async (client) => client.send('GET / HTTP/1.1\r\n'),
    async (client) => client.send('x'.repeat(200_000)),
    async (client) => {
      await client.ask('STARTTLS');
      await client.startTls();
      await client.ask('QUIT');
    },
    async (client) => {
      await client.ask('STARTTLS');
      await client.startTls();
      client.destroy();
    },
    async (client) => {
      await client.ask('STARTTLS');
      client.send('this is no handshake at all\r\n');
    },
    async (client) => {
      await client.ask('STARTTLS');
      client.destroy();
    },
    async (client) => {
      client.send('STARTTLS\r\n');
      client.destroy();
    },
  ];
  for (const end of endings) {
    const client = await greet(target);
    const refused = await DialogueClient.connect(target.port);
    assert.match(await refused.reply(), /^421 4\.7\.0 /);
    assert.equal(await refused.line(), undefined);
    await end(client);
    await until(() => target.listener.served.size === 1);
    client.destroy();
  }
  kept.destroy();
  await until(() => target.listener.served.size === 0);
});

test('the number of all connections together is limited as well', async (context) => {
  const target = await startListener(context, { maxConnections: 1 });
  const first = await greet(target);
  const second = await DialogueClient.connect(target.port);
  assert.match(await second.reply(), /^421 4\.7\.0 /);
  first.destroy();
});

test('when few connections are left, silent clients are disconnected soon, and others get in', async (context) => {
  const target = await startListener(context, { maxConnections: 8, crowdedIdleTimeout: 100 });
  const silent = await Promise.all(Array.from({ length: 5 }, () => greet(target)));
  // Longer than the idle timeout of a crowded listener, which this is not yet.
  await delay(300);
  for (const client of silent) assert.match(await client.ask('NOOP'), /^250 /);
  // With one more it is crowded, until one of them ends.
  const sixth = await DialogueClient.connect(target.port);
  assert.match(await Promise.race(silent.map((client) => client.reply())), /^421 4\.4\.2 Timeout/);
  await until(() => target.listener.served.size < 6);
  const another = await DialogueClient.connect(target.port);
  assert.match(await another.reply(), /^220 /);
  for (const client of [...silent, sixth, another]) client.destroy();
});

test('a row of commands does not keep a connection open when few are left', async (context) => {
  const target = await startStrict(context, { maxConnections: 4, crowdedLifetime: 500 });
  const connecting = Array.from({ length: 3 }, () => DialogueClient.connect(target.port));
  const busy = await Promise.all(connecting);
  const said = await Promise.race(
    busy.map(async (client) => {
      // On a slow machine the time limit may end before the greeting.
      let answer = await client.reply();
      while (/^2[25]0 /.test(answer)) {
        await delay(20);
        answer = await client.ask('NOOP');
      }
      return answer;
    }),
  );
  assert.equal(said, '421 4.4.2 Too long without a message');
  for (const client of busy) client.destroy();
});

test('only an accepted message extends the life of a connection of a stranger', async (context) => {
  const lifetime = 2_000;
  const target = await startStrict(context, { lifetime, greetingDelay: 0, commandsMax: 1_000_000 });
  const useful = await greet(target);
  const begun = performance.now();
  const useless = await greet(target);
  let said = '';
  while (!said.startsWith('421')) {
    await startData(useful);
    assert.match(await useful.ask('hello\r\n.'), /^250 /);
    said = await useless.ask(said === '' ? 'RSET' : 'NOOP');
    await delay(10);
  }
  assert.equal(said, '421 4.4.2 Too long without a message');
  assert.ok(performance.now() - begun >= lifetime);
  assert.match(await useful.ask('NOOP'), /^250 /);
  assert.match(await useful.reply(), /^421 4\.4\.2 Too long/);
});

test('a message of a stranger that comes in fast is not cut off, one that trickles is', async (context) => {
  const lifetime = 1_000;
  const target = await startStrict(context, { lifetime, greetingDelay: 0 });
  const fast = await startMessage(target);
  const begun = performance.now();
  while (performance.now() - begun < 2 * lifetime) {
    fast.send(`${'x'.repeat(998)}\r\n`.repeat(20));
    await delay(60);
  }
  assert.match(await fast.ask('.'), /^250 /);
  fast.destroy();
  const slow = await startMessage(target);
  const drip = setInterval(() => slow.send('x'), 10);
  assert.match(await slow.reply(), /^421 4\.4\.2 Too long/);
  clearInterval(drip);
});

test('a relay of our own may keep a connection for as long as it is not silent', async (context) => {
  const target = await startListener(context, { lifetime: 50, idleTimeout: 60_000 });
  const client = await greet(target);
  await delay(400);
  assert.match(await client.ask('NOOP'), /^250 /);
  client.destroy();
});

test('a client has only so many octets under way, and they are free again however a message ends', async (context) => {
  const target = await startStrict(context, { maxMessageBytes: 100_000, greetingDelay: 0 });
  const most = 4;
  const large = `${'x'.repeat(998)}\r\n`.repeat(90);
  const endings: ((client: DialogueClient) => unknown)[] = [
    async (client) => assert.match(await client.ask('.'), /^250 /),
    async (client) => {
      client.send(large);
      assert.match(await client.ask('.'), /^552 /);
    },
    (client) => client.destroy(),
    (client) => client.socket.end(),
  ];
  assert.equal(endings.length, most);
  for (let round = 0; round < 2; round++) {
    const under: DialogueClient[] = [];
    for (const _ of endings) {
      const client = await startMessage(target);
      client.send(large);
      under.push(client);
    }
    // Octets count as unfinished once delivery has read them.
    await until(() => target.delivery.bytesRead >= (round + 1) * most * large.length);
    const refused = await startMessage(target);
    assert.match(await refused.ask(`${large}.`), /^452 4\.3\.1 /);
    for (const [index, end] of endings.entries()) await end(under[index] as DialogueClient);
    refused.destroy();
    for (const { socket } of under) socket.destroy();
    await until(() => target.listener.served.size === 0);
    target.delivery.bytesRead = (round + 1) * most * large.length;
  }
});

test('a message that there is no room for is refused before it is sent', async (context) => {
  const target = await startListener(context);
  const client = await greet(target);
  target.delivery.room = 1_000;
  assert.match(await client.ask('MAIL FROM:<bob@remote.test> SIZE=1000'), /^452 4\.3\.1 /);
  assert.match(await client.ask('MAIL FROM:<bob@remote.test> SIZE=999'), /^250 /);
  assert.match(await client.ask('RCPT TO:<alice@acme.test>'), /^250 /);
  target.delivery.room = 0;
  assert.match(await client.ask('DATA'), /^452 4\.3\.1 /);
  // The transaction stays: there may be room later.
  target.delivery.room = 1_000;
  assert.match(await client.ask('DATA'), /^354 /);
  assert.match(await client.ask('hello\r\n.'), /^250 /);
  client.destroy();
});

test('refused connections do not count, even while they stay open', async (context) => {
  const target = await startListener(context, { maxConnections: 1 });
  const first = await greet(target);
  for (let tries = 0; tries < 5; tries++) {
    const refused = connect({ port: target.port, host: '127.0.0.1', allowHalfOpen: true });
    context.after(() => refused.destroy());
    const [said] = await once(refused, 'data');
    assert.match(String(said), /^421 4\.7\.0 /);
  }
  first.destroy();
});

test('a stranger who sends before the greeting is turned away', async (context) => {
  const target = await startStrict(context, { greetingDelay: 5_000 });
  // Half a line will do: it may be the start of a TLS handshake.
  for (const text of ['EHLO spam.test\r\nMAIL FROM:<eve@remote.test>\r\n', '\x16\x03\x01']) {
    const client = await DialogueClient.connect(target.port);
    client.send(text);
    assert.match(await client.reply(), /^554 5\.5\.1 /);
    assert.equal(await client.line(), undefined);
  }
});

test('a stranger who waits is greeted', async (context) => {
  const target = await startStrict(context, { greetingDelay: 10 });
  const client = await startMessage(target);
  assert.match(await client.ask('hello\r\n.'), /^250 /);
  client.destroy();
});

test('a client of this machine is greeted at once', async (context) => {
  const target = await startListener(context, { greetingDelay: 3_600_000 });
  const client = await DialogueClient.connect(target.port);
  client.send('NOOP\r\n');
  assert.match(await client.reply(), /^220 /);
  assert.match(await client.reply(), /^250 /);
  client.destroy();
});

test('a silent client is disconnected', async (context) => {
  const target = await startListener(context, { idleTimeout: 100 });
  const client = await DialogueClient.connect(target.port);
  assert.match(await client.reply(), /^220 /);
  assert.match(await client.reply(), /^421 4\.4\.2 /);
  assert.equal(await client.line(), undefined);
});

test('a client whose command waited for a stalled process does not count as silent', async (context) => {
  const idleTimeout = 1_000;
  const target = await startListener(context, { idleTimeout });
  const client = await greet(target);
  client.send('NOOP\r\n');
  stall(idleTimeout + 100);
  assert.match(await client.reply(), /^250 /);
  client.destroy();
});

test('nor one whose command waited while the listener was about to look for silent clients', async (context) => {
  const idleTimeout = 1_000;
  const target = await startListener(context, { idleTimeout });
  // Each turn of the event loop takes longer than there is between two looks: one begins in every turn.
  let isOver = false;
  const slowDown = () => {
    if (isOver) return;
    stall(idleTimeout / 4 + 10);
    setImmediate(slowDown);
  };
  setImmediate(slowDown);
  const client = await greet(target);
  client.send('NOOP\r\n');
  stall(idleTimeout + 100);
  isOver = true;
  assert.match(await client.reply(), /^250 /);
  client.destroy();
});

test('a client that never ends its line is disconnected, however often it sends a byte', async (context) => {
  const target = await startListener(context, { idleTimeout: 100 });
  const client = await DialogueClient.connect(target.port);
  assert.match(await client.reply(), /^220 /);
  const drip = setInterval(() => client.send('x'), 10);
  assert.match(await client.reply(), /^421 4\.4\.2 /);
  clearInterval(drip);
  client.destroy();
});

test('a client that stalls in a message is disconnected, and the message fails', async (context) => {
  const target = await startListener(context, { idleTimeout: 1_000 });
  const client = await startMessage(target);
  const failed = target.delivery.settled();
  client.send('half a mess');
  assert.match(await client.reply(), /^421 4\.4\.2 /);
  await failed;
  assert.deepEqual(target.delivery.messages, []);
  client.destroy();
});

test('a message that trickles in is cut off', async (context) => {
  const target = await startListener(context, { messageTimeout: 100 });
  const client = await startMessage(target);
  const drip = setInterval(() => client.send('x'), 10);
  assert.match(await client.reply(), /^421 4\.4\.2 /);
  clearInterval(drip);
  assert.deepEqual(target.delivery.messages, []);
  client.destroy();
});

test('a client that waits for delivery is not disconnected', async (context) => {
  const target = await startListener(context, { idleTimeout: 1_000, messageTimeout: 1_000 });
  const open = closeGate(target);
  const client = await startMessage(target);
  client.send('hello\r\n.\r\n');
  await delay(1_500);
  open();
  assert.match(await client.reply(), /^250 /);
  client.destroy();
});

test('after a wait for delivery inside a message the client has its full time again', async (context) => {
  const recorded = new RecordingDelivery();
  const { promise: ready, resolve: goOn } = Promise.withResolvers<void>();
  async function* slowly(source: AsyncIterable<Uint8Array>) {
    for await (const chunk of source) {
      yield chunk;
      await ready;
    }
  }
  const target = await startListener(context, {
    idleTimeout: 1_000,
    delivery: {
      checkRoom: async () => undefined,
      checkRecipient: async () => undefined,
      receive: (envelope, source) => recorded.receive(envelope, slowly(source)),
    },
  });
  const client = await startMessage(target);
  client.send('half a ');
  await delay(2_000);
  goOn();
  await delay(400);
  assert.match(await client.ask('message\r\n.'), /^250 /);
  client.destroy();
});

test('a client that sends a megabyte as a command gets an error and is cut off', async (context) => {
  const target = await startListener(context);
  const client = await greet(target);
  client.send(`MAIL FROM:<${'x'.repeat(1_000_000)}@remote.test>\r\n`);
  assert.match(await client.reply(), /^500 5\.5\.2 /);
  assert.equal(await client.line(), undefined);
});

test('a line that is a little too long gets an error, and the next one is read', async (context) => {
  const target = await startListener(context);
  const client = await greet(target);
  assert.match(await client.ask(`NOOP ${'x'.repeat(10_000)}`), /^500 5\.5\.2 /);
  assert.match(await client.ask(`NOOP ${'x'.repeat(2_000)}`), /^250 /);
  client.destroy();
});

test('replies to a client that does not read them do not pile up', async (context) => {
  const target = await startListener(context, { commandsMax: 10_000_000 });
  const sockets: Socket[] = [];
  const accepted = (message: unknown) => sockets.push((message as { socket: Socket }).socket);
  subscribe('net.server.socket', accepted);
  context.after(() => unsubscribe('net.server.socket', accepted));

  const client = await greet(target);
  client.socket.pause();
  await writeUntilStalled(client, 'NOOP\r\n'.repeat(10_000));
  // Replies up to the high-water mark, and those to the one read that crosses it (64 KiB, written together);
  // a server that read on would keep far more.
  const [socket] = sockets;
  assert.ok(socket !== undefined);
  const repliesToRead = Math.ceil(65_536 / 'NOOP\r\n'.length) * '250 2.0.0 OK\r\n'.length;
  for (let look = 0; look < 10; look++) {
    assert.ok(socket.writableLength <= socket.writableHighWaterMark + repliesToRead);
    await delay(50);
  }
  client.destroy();
});

test('commands of a stranger that cost much are carried out in turns of the event loop', async (context) => {
  let now = 0;
  let turn = 0;
  const turns: number[] = [];
  const isTrusted = () => false;
  const target = await startListener(context, { isTrusted, greetingDelay: 0 });
  context.mock.method(target.delivery, 'checkRecipient', async () => {
    turns.push(turn);
    now += 6;
    return undefined;
  });
  const client = await greet(target);
  context.mock.method(performance, 'now', () => now);
  const count = () => {
    turn++;
    if (turns.length < 3) setImmediate(count);
  };
  count();
  client.send(`MAIL FROM:<a@b.test>\r\n${'RCPT TO:<alice@acme.test>\r\n'.repeat(3)}`);
  for (const _ of [1, 2, 3, 4]) assert.match(String(await client.line()), /^250 /);
  assert.equal(new Set(turns).size, 3);
  client.destroy();
});

test('any number of pipelined commands gets replies', async (context) => {
  const target = await startListener(context, { commandsMax: 100_000 });
  const client = await greet(target);
  client.send('NOOP\r\n'.repeat(50_000));
  for (let i = 0; i < 50_000; i++) assert.equal(await client.line(), '250 2.0.0 OK');
  client.destroy();
});

test('nothing that clients send breaks the listener', async (context) => {
  const target = await startListener(context, { maxMessageBytes: 100, recipientsMax: 3 });
  const word = fc.constantFrom(
    ...['EHLO a', 'LHLO a', 'MAIL FROM:<b@c.test>', 'RCPT TO:<alice@acme.test>', 'DATA', 'RSET'],
    ...[
      'RCPT TO:<broken@acme.test>',
      'RCPT TO:<loop@acme.test>',
      'STARTTLS',
      'QUIT',
      'NOOP',
      'VRFY a',
    ],
    ...[
      '\r\n',
      '\r\n',
      '\r\n',
      '\r\n.\r\n',
      '\n',
      '\r',
      '.',
      '\0',
      ' ',
      '<',
      '>',
      'x'.repeat(3000),
    ],
  );
  const bytes = fc.oneof(
    { weight: 9, arbitrary: word.map((text) => Buffer.from(text)) },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 20 }).map((array) => Buffer.from(array)) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(bytes, { maxLength: 60 }), async (pieces) => {
      const client = await DialogueClient.connect(target.port);
      for (const piece of pieces) client.socket.write(piece);
      client.socket.end();
      while ((await client.line()) !== undefined);
    }),
    { numRuns: 300 },
  );
  const unexpected = target.log.filter(
    ({ level, err }) => Number(level) >= 50 && !JSON.stringify(err).includes('said too much'),
  );
  assert.deepEqual(unexpected, []);
  const client = await startMessage(target);
  assert.match(await client.ask('hello\r\n.'), /^250 /);
  client.destroy();
});

test('a new certificate is used for each STARTTLS after it', async (context) => {
  const target = await startListener(context);
  const secured = async () => {
    const client = await greet(target);
    await client.ask('STARTTLS');
    const certificate = await client.startTls();
    return { client, certificate };
  };
  const before = await secured();
  const made = readCertificate('other');
  assert.throws(() => target.listener.setTls({ ...made, cert: 'none' }));
  assert.deepEqual((await secured()).certificate, before.certificate);
  target.listener.setTls(made);
  assert.deepEqual((await secured()).certificate, new X509Certificate(made.cert).raw);
  assert.match(await before.client.ask('NOOP'), /^250 /);
});

test('stopping ends idle connections with 421 and refuses new ones', async (context) => {
  const target = await startListener(context);
  const idle = await greet(target);
  const secure = await greet(target);
  await secure.ask('STARTTLS');
  await secure.startTls();
  const gone = await greet(target);
  gone.destroy();
  const waiting = await startStrict(context, { greetingDelay: 3_600_000 });
  const silent = await DialogueClient.connect(waiting.port);
  await until(() => waiting.listener.served.size === 1);

  const closed = Promise.all([target.listener.close(), waiting.listener.close()]);
  for (const client of [idle, secure, silent]) {
    assert.match(await client.reply(), /^421 4\.3\.2 /);
    assert.equal(await client.line(), undefined);
  }
  await closed;
  const late = connect(target.port, '127.0.0.1');
  const [error] = await once(late, 'error');
  assert.equal(error.code, 'ECONNREFUSED');
});

test('stopping lets a message finish', async (context) => {
  const target = await startListener(context);
  const sending = await startMessage(target);
  sending.send('half a ');
  const delivering = await startMessage(target);
  const open = closeGate(target);
  const read = target.delivery.settled();
  delivering.send('hello\r\n.\r\nNOOP\r\n');
  await read;

  const closed = target.listener.close();
  assert.equal(target.listener.close(), closed);
  sending.send('message\r\n.\r\n');
  open();
  for (const client of [sending, delivering]) {
    assert.match(await client.reply(), /^250 2\.0\.0 /);
    assert.match(await client.reply(), /^421 4\.3\.2 /);
    assert.equal(await client.line(), undefined);
  }
  await closed;
  assert.equal(target.delivery.messages.length, 2);
});

test('stopping cuts off what is not done by the deadline', async (context) => {
  const target = await startListener(context);
  const client = await startMessage(target);
  const failed = target.delivery.settled();
  client.send('half a message');
  await target.listener.close(50);
  await failed;
  assert.deepEqual(target.delivery.messages, []);
  assert.match(await client.reply(), /^421 4\.3\.2 /);
});

test('stopping waits for delivery when the client is gone', async (context) => {
  const target = await startListener(context);
  const open = closeGate(target);
  const client = await startMessage(target);
  const read = target.delivery.settled();
  client.send('hello\r\n.\r\n');
  await read;
  client.destroy();
  await until(() => target.listener.served.size === 0);
  let stopped = false;
  const closed = target.listener.close().then(() => {
    stopped = true;
  });
  await delay(50);
  assert.equal(stopped, false);
  open();
  await closed;
  assert.equal(target.delivery.messages.length, 1);
});

/** The base64 of `\0ada@acme.test\0secret`, as all clients of the next tests log in. */
const LOGIN = `AUTH PLAIN ${Buffer.from('\0ada@acme.test\0secret').toString('base64')}`;

test('a client that leaves while it logs in takes no slot of its account', async (t) => {
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  let begun = 0;
  const submission = submissionTo(new RecordingDelivery());
  const target = await startListener(t, {
    delivery: {
      async logIn(given, ip) {
        begun++;
        await gate;
        return submission.logIn(given, ip);
      },
    },
  });
  const { listener } = target;
  for (let at = 0; at < 25; at++) {
    const client = await greet(target);
    client.send(`${LOGIN}\r\n`);
    await until(() => begun > at);
    client.destroy();
  }
  await until(() => listener.served.size === 0);
  open();
  const client = await greet(target);
  assert.match(await client.ask(LOGIN), /^235 /);
  client.destroy();
});

test('the accounts of one user leave connections for those of others', async (t) => {
  const submission = submissionTo(new RecordingDelivery());
  let [accountId, userId] = [1, 'u'];
  const target = await startListener(t, {
    maxConnections: 100,
    delivery: {
      logIn: async (given, ip) => ({ ...(await submission.logIn(given, ip)), accountId, userId }),
    },
  });
  const clients: DialogueClient[] = [];
  const logIn = async () => {
    const client = await greet(target);
    clients.push(client);
    return client.ask(LOGIN);
  };
  for (; accountId <= 20; accountId++) assert.match(await logIn(), /^235 /);
  assert.match(await logIn(), /^421 4\.7\.0 /);
  userId = 'another';
  assert.match(await logIn(), /^235 /);
  for (const client of clients) client.destroy();
});

test('the accounts of one user leave room for the messages of others', async (t) => {
  const delivery = new RecordingDelivery();
  const submission = submissionTo(delivery);
  let [accountId, userId] = [1, 'u'];
  const target = await startListener(t, {
    maxMessageBytes: 100_000,
    delivery: {
      logIn: async (given, ip) => ({ ...(await submission.logIn(given, ip)), accountId, userId }),
    },
  });
  const large = `${'x'.repeat(998)}\r\n`.repeat(90);
  const begin = async () => {
    const client = await greet(target);
    t.after(() => client.destroy());
    assert.match(await client.ask(LOGIN), /^235 /);
    await client.ask('MAIL FROM:<ada@acme.test>');
    await client.ask('RCPT TO:<alice@acme.test>');
    assert.match(await client.ask('DATA'), /^354 /);
    return client;
  };
  for (; accountId <= 22; accountId++) {
    const client = await begin();
    client.send(large);
    await until(() => delivery.bytesRead >= accountId * large.length);
  }
  assert.match(await (await begin()).ask(`${large}.`), /^452 4\.3\.1 /);
  userId = 'another';
  assert.match(await (await begin()).ask(`${large}.`), /^250 /);
});
