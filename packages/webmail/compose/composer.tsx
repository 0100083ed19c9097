/**
 * The window in which a message is written: docked at the bottom of the page, or all of a phone. A draft is saved at each
 * pause and when the window closes.
 */
import { onBeforeUnmount, onMounted, ref, watch } from 'vue';
import {
  type Account,
  composer,
  type Writing,
  write,
  writeAgain,
  writing,
} from '../state/parts.ts';
import { signatures, undoSeconds } from '../state/remembered.ts';
import { coverPage } from '../state/route.ts';
import { Button } from '../ui/button.tsx';
import { component } from '../ui/component.ts';
import { useLoaded, Waiting } from '../ui/loaded.tsx';
import { confirm } from '../ui/questions.tsx';
import { say, sayFailure } from '../ui/toasts.tsx';
import { toCorrespondents } from './addresses.ts';
import { ComposeForm } from './compose-form.tsx';
import {
  type ComposeContent,
  draftContent,
  emptyContent,
  forwardContent,
  replyContent,
} from './content.ts';
import { makeReadable, textOf } from './html-tools.ts';
import { ComposeSession } from './session.ts';
import './compose.css';

const TITLES = {
  new: 'New message',
  reply: 'Reply',
  'reply-all': 'Reply to all',
  forward: 'Forward',
  draft: 'Draft',
} as const;

interface ComposerProps {
  readonly writing: Writing;
  /** Several accounts are signed in: which one writes is said. */
  readonly isOfSeveral?: boolean;
}

/** Another message that is written is another one of these (`key`). */
export const Composer = component<ComposerProps>(['writing', 'isOfSeveral'], (props) => {
  const { writing: what } = props;
  const session = useLoaded(async () => startSession(what, await startContent(what)));
  const element = ref<HTMLElement>();
  const opener = document.activeElement;
  const isDirty = () => session.value?.isDirty === true;
  const leave = async () => !isDirty() || (await session.value?.save()) === true;
  const warn = (event: BeforeUnloadEvent) => {
    if (isDirty()) event.preventDefault();
  };
  const save = () => void session.value?.save();
  // Signed in again, it can be saved.
  watch(() => what.account.client, save);
  const gone = new AbortController();
  let uncover = () => {};
  onMounted(() => {
    composer.leave = leave;
    uncover = coverPage(() => (session.value ? void session.value.close() : close(what)));
    addEventListener('beforeunload', warn, gone);
    // A phone ends pages that are not seen, without a question.
    document.addEventListener('visibilitychange', save, gone);
  });
  onBeforeUnmount(() => {
    if (composer.leave === leave) composer.leave = async () => true;
    gone.abort();
    uncover();
    session.value?.leave();
    // The focus goes back to where it was, unless it is elsewhere already.
    const isWithin = element.value?.contains(document.activeElement);
    if (isWithin && opener instanceof HTMLElement) opener.focus();
  });
  const title = () =>
    props.isOfSeveral ? `${TITLES[what.kind]} from ${what.account.address}` : TITLES[what.kind];
  return () => (
    <section ref={element} class="composer" role="dialog" aria-label={title()}>
      {session.value ? (
        <ComposeForm title={title()} session={session.value} />
      ) : (
        <Waiting of={session}>
          <Button class="link" label="Close" press={() => close(what)} />
        </Waiting>
      )}
    </section>
  );
});

function close(what: Writing): void {
  if (writing.value === what) writing.value = undefined;
}

function signatureOf({ address }: Account): string {
  return signatures.value[address] ?? '';
}

async function startContent(what: Writing): Promise<ComposeContent> {
  if (what.again) return what.again;
  const { account } = what;
  const signature = signatureOf(account);
  if (what.kind === 'new') {
    const { to = [], subject = '', text = '' } = what;
    const empty = emptyContent(signature);
    return { ...empty, to: toCorrespondents(to), subject, text: `${text}${empty.text}` };
  }
  const { mailbox, id } = what.about;
  const read = makeReadable(await account.client.mailbox(mailbox).read(id));
  if (read.truncated && what.kind !== 'reply' && what.kind !== 'reply-all') {
    throw new Error('Its text is too long to be changed here.');
  }
  if (what.kind === 'forward') return forwardContent(read, signature);
  if (what.kind === 'draft') return draftContent(read);
  const toAll = what.kind === 'reply-all';
  return replyContent(read, { own: [account.address], signature, toAll });
}

function startSession(what: Writing, content: ComposeContent): ComposeSession {
  const session = new ComposeSession({
    account: what.account,
    content,
    signature: signatureOf(what.account),
    undoSeconds: undoSeconds.value,
    page: {
      textOf,
      ask: confirm,
      close: () => close(what),
      reopen: (again) => write({ ...what, again }),
      comeBack: (again) => writeAgain({ ...what, again }),
      say: (text, undo) =>
        say(text, {
          action: undo && { label: 'Undo', run: undo },
          forMs: Math.max(5, undoSeconds.value) * 1000,
        }),
      sayFailure,
    },
  });
  if (what.again) session.changed();
  return session;
}
