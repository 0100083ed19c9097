/** Two clients of one account on a whole service: what one does, the other sees; what is done offline, goes later. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import {
  startTestService,
  type TestAccount,
  type TestService,
} from '../../../../test/support/service.ts';
import type { MailboxView, MailClient } from '../../src/mail/client.ts';
import { type MailOptions, memoryStore, openMail } from '../../src/mail.ts';

let service: TestService;
let ada: TestAccount;

before(async () => {
  service = await startTestService('sqlite', { RATE_LIMIT_PER_MINUTE: '0' });
  ada = await service.makeAccount('ada');
  for (const subject of ['One', 'Two', 'Three']) await receive(subject);
});

const receive = (subject: string) =>
  service.send({ from: 'bob@sender.test', to: ada.address, subject, text: `${subject}.` });

/** A client whose network can be cut. */
async function open(options: Partial<MailOptions> = {}) {
  const network = { isCut: false, sockets: new Set<WebSocket>() };
  const client = await openMail({
    baseUrl: service.url,
    auth: { address: ada.address, password: ada.password },
    platform: {
      fetch: (input, init) =>
        network.isCut ? Promise.reject(new TypeError('fetch failed')) : fetch(input, init),
      connect: (url, protocols) => {
        if (network.isCut) throw new TypeError('no network');
        const socket = new WebSocket(url, protocols);
        network.sockets.add(socket);
        return socket as ReturnType<NonNullable<MailOptions['platform']>['connect'] & object>;
      },
      openChannel: undefined,
    },
    ...options,
  });
  const cut = () => {
    network.isCut = true;
    for (const socket of network.sockets) socket.close();
  };
  const restore = () => {
    network.isCut = false;
    client.reconnect();
  };
  return { client, cut, restore };
}

/** Waits until a mailbox shows what is expected. */
function shows(client: MailClient, mailbox: string, isSo: (view: MailboxView) => boolean) {
  return new Promise<MailboxView>((resolve) => {
    const stop = client.mailbox(mailbox).watch({}, (view) => {
      if (!isSo(view)) return;
      queueMicrotask(() => stop());
      resolve(view);
    });
  });
}

const subjects = ({ messages }: MailboxView) => messages.map(({ envelope }) => envelope.subject);
const isLive = ({ state, messages }: MailboxView) =>
  state === 'live' && messages.every(({ pending }) => !pending);

test('what one client does, the other sees', async () => {
  const [one, other] = [(await open()).client, (await open()).client];
  const first = await shows(one, 'INBOX', (view) => view.total === 3 && isLive(view));
  assert.deepEqual(subjects(first), ['Three', 'Two', 'One']);
  await shows(other, 'INBOX', (view) => view.total === 3 && isLive(view));

  await receive('Four');
  const hasFour = (view: MailboxView) => subjects(view)[0] === 'Four';
  await Promise.all([one, other].map((client) => shows(client, 'INBOX', hasFour)));
  const [id = 0] = await one.mailbox('INBOX').ids();
  const { text } = await one.mailbox('INBOX').read(id);
  assert.equal(text?.trim(), 'Four.');
  await one.mailbox('INBOX').flag([id], { add: ['\\Seen', '\\Flagged'] });
  await shows(other, 'INBOX', ({ messages }) => messages[0]?.flags.includes('\\Flagged') === true);

  const archived = await one.mailbox('INBOX').move([id], 'Archive');
  await shows(other, 'INBOX', (view) => view.total === 3);
  await shows(other, 'Archive', (view) => subjects(view)[0] === 'Four');
  await archived.undo();
  await shows(other, 'INBOX', (view) => subjects(view)[0] === 'Four');
  await shows(other, 'Archive', (view) => view.total === 0);
  await Promise.all([one.close(), other.close()]);
});

test('changes without a network are seen at once, kept over a restart, and go later', async () => {
  const store = memoryStore();
  const away = await open({ store });
  const inbox = away.client.mailbox('INBOX');
  const whole = await shows(away.client, 'INBOX', (view) => view.total === 4 && isLive(view));
  const [newest, second] = whole.messages.map(({ id }) => id);
  assert.ok(newest && second);
  away.cut();
  await inbox.flag([second], { add: ['$Later'] });
  await inbox.delete([newest]);
  const { client } = away;
  await client.createMailbox('Projects');
  const draft = await client.saveDraft({ to: [{ address: 'eve@sender.test' }], subject: 'Grüße' });
  const view = await inbox.list();
  assert.deepEqual(subjects(view), ['Three', 'Two', 'One']);
  assert.deepEqual(view.messages[0]?.flags, ['$Later']);
  assert.deepEqual(subjects(await client.mailbox('Trash').list()), ['Four']);
  assert.deepEqual(subjects(await client.mailbox(draft.mailbox).list()), ['Grüße']);
  assert.equal((await client.pending()).length, 4);
  await client.close();

  const { client: back } = await open({ store });
  const other = (await open()).client;
  await shows(other, 'INBOX', (now) => now.messages[0]?.flags.includes('$Later') === true);
  await shows(other, 'Trash', (now) => subjects(now)[0] === 'Four');
  await shows(other, 'Drafts', (now) => subjects(now)[0] === 'Grüße');
  await shows(back, 'Drafts', isLive);
  assert.deepEqual(await back.pending(), []);
  const names = (await back.mailboxes()).map(({ name }) => name);
  assert.ok(names.includes('Projects'), names.join(' '));
  await Promise.all([back.close(), other.close()]);
});

test('a mail goes once although its first answer was lost, and can be taken back', async () => {
  let lose = true;
  const { client } = await open({
    platform: {
      openChannel: undefined,
      fetch: async (input, init) => {
        const answer = await fetch(input, init);
        if (!lose || !String(input).endsWith('/mail/send')) return answer;
        lose = false;
        throw new TypeError('fetch failed');
      },
    },
  });
  const to = [{ address: ada.address }];
  const content = new TextEncoder().encode('bytes');
  const sent = await client.send({
    to,
    subject: 'Once',
    text: 'x',
    attachments: [{ filename: 'ä.bin', content }],
  });
  await sent.applied;
  const inSent = await shows(client, 'Sent', (view) => view.total === 1 && isLive(view));
  assert.deepEqual(subjects(inSent), ['Once']);
  const later = await client.send({ to, subject: 'Not this', text: 'x' }, { undoSeconds: 60 });
  await later.applied;
  const answer = await later.cancel();
  assert.equal(answer?.draft.mailbox, 'Drafts');
  await shows(client, 'Drafts', (view) => subjects(view).includes('Not this'));
  await client.signOut();
  assert.equal(client.state, 'stopped');
});

test('a client whose password is wrong stops, and says why', async () => {
  const auth = { address: ada.address, password: 'not the one' };
  const { client } = await open({ auth });
  const { state } = await shows(client, 'INBOX', (view) => view.state === 'stopped');
  assert.equal(state, 'stopped');
  await client.close();
});
