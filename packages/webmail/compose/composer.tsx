/**
 * The window in which a message is written: docked at the bottom of the page, or all of a phone. A draft is saved at each
 * pause and when the window closes; another message that is opened takes its place.
 */
import { defineComponent, onBeforeUnmount, onMounted, ref, shallowRef, watch } from 'vue';
import { type Account, type Writing, write, writing } from '../state/parts.ts';
import { signatures, undoSeconds } from '../state/remembered.ts';
import { say, sayFailure } from '../ui/toasts.tsx';
import { ComposeForm } from './compose-form.tsx';
import {
  type ComposeContent,
  draftContent,
  emptyContent,
  forwardContent,
  replyContent,
} from './content.ts';
import { htmlTools as tools } from './html-tools.ts';
import { Question, type Questions, useQuestions } from './question.tsx';
import { ComposeSession, type SessionPage } from './session.ts';
import './compose.css';

/** What a taken back message had; its `Writing` alone would begin anew. */
const reopened = new WeakMap<Writing, ComposeContent>();

export const Composer = defineComponent(
  (props: { writing: Writing }) => {
    const session = shallowRef<ComposeSession>();
    const failure = ref<string>();
    const questions = useQuestions();
    const open = async (what: Writing) => {
      const before = session.value;
      failure.value = undefined;
      if (before?.isDirty && !(await before.save())) {
        // What is written stays open until it is saved.
        writing.value = shown;
        return;
      }
      shown = what;
      session.value = undefined;
      try {
        const content = await startContent(what);
        if (shown !== what) return;
        session.value = startSession(what, content, questions);
        if (reopened.has(what)) session.value.changed();
      } catch (error) {
        failure.value = error instanceof Error ? error.message : String(error);
      }
    };
    let shown = props.writing;
    watch(
      () => props.writing,
      (what) => {
        if (what !== shown || !session.value) void open(what);
      },
      { immediate: true },
    );
    const warn = (event: BeforeUnloadEvent) => {
      if (session.value?.isDirty) event.preventDefault();
    };
    onMounted(() => addEventListener('beforeunload', warn));
    onBeforeUnmount(() => {
      removeEventListener('beforeunload', warn);
      void session.value?.save();
    });
    return () => (
      <section class="composer" role="dialog" aria-label={TITLES[props.writing.kind]}>
        {session.value ? (
          <ComposeForm
            key={String(sessionKey(session.value))}
            title={TITLES[props.writing.kind]}
            account={props.writing.account}
            session={session.value}
          />
        ) : (
          <p class="notice">
            {failure.value === undefined ? 'Loading…' : `It could not be opened: ${failure.value} `}
            <button
              type="button"
              class="link"
              onClick={() => {
                writing.value = undefined;
              }}
            >
              Close
            </button>
          </p>
        )}
        <Question questions={questions} />
      </section>
    );
  },
  { props: ['writing'] },
);

const TITLES = {
  new: 'New message',
  reply: 'Reply',
  'reply-all': 'Reply to all',
  forward: 'Forward',
  draft: 'Draft',
} as const;

let lastKey = 0;
const keys = new WeakMap<ComposeSession, number>();

/** A form of its own for each session: none shows the text of another. */
function sessionKey(session: ComposeSession): number {
  const known = keys.get(session);
  if (known !== undefined) return known;
  lastKey += 1;
  keys.set(session, lastKey);
  return lastKey;
}

function signatureOf({ address }: Account): string {
  return signatures.value[address] ?? '';
}

async function startContent(what: Writing): Promise<ComposeContent> {
  const again = reopened.get(what);
  if (again) return again;
  const { account } = what;
  const signature = signatureOf(account);
  if (what.kind === 'new') {
    const { to = [], subject = '', text = '' } = what;
    const empty = emptyContent(signature);
    const people = to.flatMap(({ name, address }) =>
      address ? [{ ...(name && { name }), address }] : [],
    );
    return { ...empty, to: people, subject, text: `${text}${empty.text}` };
  }
  const { mailbox, id } = what.about;
  const read = await account.client.mailbox(mailbox).read(id);
  if (read.truncated && what.kind !== 'reply' && what.kind !== 'reply-all') {
    throw new Error('Its text is too long to be changed here.');
  }
  if (what.kind === 'forward') return forwardContent(read, { signature, tools });
  if (what.kind === 'draft') return await withBytes(account, draftContent(read, tools));
  const toAll = what.kind === 'reply-all';
  return replyContent(read, { own: [account.address], signature, toAll, tools });
}

/** The files of a draft are fetched: the draft that has them goes when it is saved anew. */
async function withBytes(account: Account, content: ComposeContent): Promise<ComposeContent> {
  const files = await Promise.all(
    content.files.map(async ({ from, ...file }) => {
      if (!from) return file;
      const bytes = await account.client.mailbox(from.mailbox).attachment(from.id, from.part);
      return { ...file, content: bytes };
    }),
  );
  return { ...content, files };
}

function startSession(
  what: Writing,
  content: ComposeContent,
  questions: Questions,
): ComposeSession {
  const page: SessionPage = {
    tools,
    ask: (text, yes) => questions.ask(text, yes),
    close: () => {
      if (writing.value === what) writing.value = undefined;
    },
    reopen: (again) => {
      const next: Writing = { ...what };
      reopened.set(next, again);
      write(next);
    },
    say: (text, undo) => {
      say(text, {
        ...(undo && { action: { label: 'Undo', run: undo } }),
        forMs: Math.max(5, undoSeconds.value) * 1000,
      });
    },
    sayFailure,
  };
  return new ComposeSession({
    client: what.account.client,
    content,
    signature: signatureOf(what.account),
    undoSeconds: undoSeconds.value,
    page,
  });
}
