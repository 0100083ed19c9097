/** The page of the Chromium suites of reading and writing: the real parts, and the real client on the SDK's fake server. */
import { createApp, defineComponent, shallowRef } from 'vue';
import type { MailMessage } from '../../sdk/src/mail/client.ts';
import { openMail } from '../../sdk/src/mail.ts';
import {
  type DeliverOptions,
  type FakeAccount,
  FakeServer,
  type NewMail,
} from '../../sdk/src/testing/testing.ts';
import { Composer } from '../compose/composer.tsx';
import { Outgoing } from '../compose/outgoing.tsx';
import { ProtocolPanel } from '../panel/panel.tsx';
import { MessageBody } from '../reading/message-body.tsx';
import { type Account, write, writing } from '../state/parts.ts';
import { useKeys } from '../ui/keys.ts';
import { Questions } from '../ui/questions.tsx';
import { Toasts } from '../ui/toasts.tsx';
import '../../../console/styles/base.css';
import '../styles/base.css';
import '../styles/overlay.css';

/** A message as a test gives it: JSON. The bytes of its files are in base64. */
type GivenMail = NewMail & DeliverOptions;

declare global {
  interface Window {
    /** Shows messages below each other, as a conversation does. */
    show: (given: readonly GivenMail[]) => Promise<void>;
    account: Account;
    server: FakeServer;
    /** The account as the server has it. */
    mailbox: FakeAccount;
    /** Opens the composer about a message that is shown, by its place from 1 on, or for a new one. */
    compose: (kind: 'new' | 'reply' | 'reply-all' | 'forward' | 'draft', place: number) => void;
    /** Shows one of the smaller parts. */
    part: (name: 'outgoing' | 'protocol' | undefined) => void;
    /** Keys that the page was told of. */
    pressed: string[];
    /** What a script of a mail would say. */
    pwned: unknown[];
  }
}

const shown = shallowRef<readonly MailMessage[]>();
let shows = 0;
const part = shallowRef<'outgoing' | 'protocol'>();
window.part = (name) => {
  part.value = name;
};
window.pressed = [];
window.pwned = [];
addEventListener('message', ({ data }) => {
  if (String(data).startsWith('pwned')) window.pwned.push(data);
});

const BOB = { name: 'Bob Baker', address: 'bob@sender.test' };
const ADA = { address: 'ada@acme.test', password: 'a good password' };
const CAROL = { address: 'carol@shop.test' };
const VERIFIED = { spf: 'pass', dkim: 'pass', dmarc: 'pass' };
const bytesOf = (base64: unknown) =>
  Uint8Array.from(atob(String(base64)), (one) => one.charCodeAt(0));

window.show = async (given) => {
  const server = new FakeServer();
  const mailbox = server.addAccount(ADA);
  const known = [BOB, { name: 'Bobby Tables', address: 'bobby@school.test' }, CAROL];
  mailbox.deliver('Sent', { from: ADA, to: known }, { flags: ['\\Seen'] });
  const headers = {
    'List-Unsubscribe': '<https://list.test/leave>, <mailto:leave@list.test?subject=go>',
  };
  for (const { auth = VERIFIED, attachments = [], ...mail } of given) {
    const files = attachments.map((file) => ({ ...file, content: bytesOf(file.content) }));
    const usual = { from: BOB, to: [{ address: ADA.address }, CAROL], headers };
    mailbox.deliver('INBOX', { ...usual, ...mail, attachments: files }, { auth });
  }
  const { fetch, connect } = server.platform;
  const baseUrl = 'https://mail.test';
  const client = await openMail({ baseUrl, auth: ADA, platform: { fetch, connect } });
  await Promise.all([client.mailbox('INBOX').sync(), client.mailbox('Sent').sync()]);
  const { messages } = await client.mailbox('INBOX').list({ limit: given.length });
  Object.assign(window, { server, mailbox });
  window.account = { address: ADA.address, client, settle: async () => {} };
  shows++;
  shown.value = messages.toReversed();
};

window.compose = (kind, place) => {
  const { account } = window;
  const about = shown.value?.[place - 1];
  if (kind === 'new') write({ kind, account });
  else if (about) write({ kind, account, about });
};

const Page = defineComponent(() => {
  useKeys({ j: () => window.pressed.push('j'), '#': () => window.pressed.push('#') });
  const close = () => window.part(undefined);
  const opened = (messages: readonly MailMessage[], { account } = window) => (
    <>
      {messages.map((message) => (
        <MessageBody key={`${shows} ${message.id}`} account={account} message={message} />
      ))}
      {part.value === 'outgoing' && <Outgoing account={account} close={close} />}
      {part.value === 'protocol' && <ProtocolPanel account={account} close={close} />}
    </>
  );
  return () => (
    <main>
      <h1>Messages</h1>
      {shown.value && opened(shown.value)}
      <output hidden>{JSON.stringify(writing.value?.kind)}</output>
      {writing.value && <Composer key={writing.value.id} writing={writing.value} />}
      <Questions />
      <Toasts />
    </main>
  );
});

createApp(Page).mount('#webmail');
