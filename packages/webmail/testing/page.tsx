/** The page of the Chromium suites of reading and writing: the real parts, on a mailbox in memory. */
import { createApp, defineComponent, shallowRef } from 'vue';
import { Composer } from '../compose/composer.tsx';
import { Outgoing } from '../compose/outgoing.tsx';
import { ProtocolPanel } from '../panel/panel.tsx';
import { MessageBody } from '../reading/message-body.tsx';
import { type Account, write, writing } from '../state/parts.ts';
import { useKeys } from '../ui/keys.ts';
import { Questions } from '../ui/questions.tsx';
import { Toasts } from '../ui/toasts.tsx';
import { type GivenMessage, type MemoryClient, memoryClient } from './memory-client.ts';
import '../../../console/styles/base.css';
import '../styles/base.css';
import '../styles/overlay.css';

declare global {
  interface Window {
    /** Shows messages below each other, as a conversation does. */
    show: (given: readonly GivenMessage[]) => void;
    mailbox: MemoryClient;
    /** Opens the composer about a message that is shown, or for a new one. */
    compose: (kind: 'new' | 'reply' | 'reply-all' | 'forward' | 'draft', id: number) => void;
    /** Shows one of the smaller parts. */
    part: (name: 'outgoing' | 'protocol' | undefined) => void;
    /** Keys that the page was told of. */
    pressed: string[];
    /** What a script of a mail would say. */
    pwned: unknown[];
  }
}

const shown = shallowRef<{ given: readonly GivenMessage[]; account: Account }>();

const part = shallowRef<'outgoing' | 'protocol'>();
window.part = (name) => {
  part.value = name;
};
window.pressed = [];
window.pwned = [];
addEventListener('message', ({ data }) => {
  if (String(data).startsWith('pwned')) window.pwned.push(data);
});
window.show = (given) => {
  window.mailbox = memoryClient(given);
  const account = { address: 'ada@acme.test', client: window.mailbox.client };
  shown.value = { given, account };
};

window.compose = (kind, id) => {
  const account = shown.value?.account;
  if (!account) return;
  if (kind === 'new') write({ kind, account });
  else write({ kind, account, about: window.mailbox.message(id) });
};

const Page = defineComponent(() => {
  useKeys({ j: () => window.pressed.push('j'), '#': () => window.pressed.push('#') });
  const close = () => window.part(undefined);
  const messages = (given: readonly GivenMessage[], account: Account) =>
    given.map(({ id }) => (
      <MessageBody key={id} account={account} message={window.mailbox.message(id)} />
    ));
  const opened = (account: Account) => (
    <>
      {part.value === 'outgoing' && <Outgoing account={account} close={close} />}
      {part.value === 'protocol' && <ProtocolPanel account={account} close={close} />}
    </>
  );
  return () => (
    <main>
      <h1>Messages</h1>
      {shown.value && messages(shown.value.given, shown.value.account)}
      {shown.value && opened(shown.value.account)}
      <output hidden>{JSON.stringify(writing.value?.kind)}</output>
      {writing.value && <Composer key={writing.value.id} writing={writing.value} />}
      <Questions />
      <Toasts />
    </main>
  );
});

createApp(Page).mount('#webmail');
