/** A message while it is written: when it is saved, that it is sent once, and that it is never lost. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { ApiError } from '../../sdk/src/errors.ts';
import type { MailClient, OutgoingMail, SendOperation } from '../../sdk/src/mail/client.ts';
import { type ComposeContent, emptyContent } from '../compose/content.ts';
import { ComposeSession } from '../compose/session.ts';
import { type Account, stopWriting, writeAgain, writing } from '../state/parts.ts';

/** Records what a session asks of its client and of the page. */
function startSession(start: Partial<ComposeContent> = {}) {
  const log: string[] = [];
  const drafts = new Map<number, Omit<OutgoingMail, 'draft'>>();
  const sent: OutgoingMail[] = [];
  const said: { text: string; undo: (() => void) | undefined }[] = [];
  const reopened: ComposeContent[] = [];
  const state = {
    failure: undefined as Error | undefined,
    refusal: undefined as Error | undefined,
    refusedAfterMs: 0,
    isYes: true,
  };
  const applied = async () => {
    const { refusal, refusedAfterMs } = state;
    if (refusedAfterMs > 0) await setTimeout(refusedAfterMs);
    if (refusal) throw refusal;
  };
  const operation = () => ({
    id: 'o',
    kind: 'append' as const,
    applied: applied(),
    undo: async () => {},
    forget: async () => {},
  });
  const client: Pick<MailClient, 'saveDraft' | 'send' | 'mailbox'> = {
    async saveDraft(mail, replaces) {
      if (state.failure) throw state.failure;
      const id = 100 + log.length;
      log.push(`save ${mail.text?.trim()}`);
      if (replaces) drafts.delete(Number(replaces.id));
      drafts.set(id, mail);
      const attachments = (mail.attachments ?? []).map((file, index) => ({
        ...file,
        from: { mailbox: 'Drafts', id, part: `~${index}` },
      }));
      return { mailbox: 'Drafts', id, attachments, operation: operation() };
    },
    async send(mail, options) {
      await setTimeout(1);
      if (state.failure) throw state.failure;
      log.push(`send ${options?.undoSeconds}`);
      sent.push(mail);
      if (mail.draft) drafts.delete(Number(mail.draft.id));
      const cancel = async () => ({ ok: true, draft: { mailbox: 'Drafts', id: 9, uid: 9 } });
      const done: SendOperation = {
        ...operation(),
        kind: 'send',
        sendId: Promise.resolve('s'),
        cancel,
      };
      return done;
    },
    mailbox: () =>
      ({
        delete: async ([id]: number[]) => {
          drafts.delete(Number(id));
          return operation();
        },
      }) as unknown as ReturnType<MailClient['mailbox']>,
  };
  const session = new ComposeSession({
    account: {
      client: client as MailClient,
      settle: async (_, how) => void log.push(how),
    },
    content: { ...emptyContent(''), ...start },
    signature: '',
    undoSeconds: 10,
    pauseMs: 5,
    page: {
      textOf: (html) => html,
      ask: async (question) => {
        log.push(question);
        return state.isYes;
      },
      close: () => log.push('close'),
      reopen: (content) => reopened.push(content),
      comeBack: (content) => reopened.push(content),
      say(text, undo) {
        const one = { text, undo };
        said.push(one);
        return () => void said.splice(said.indexOf(one), 1);
      },
      sayFailure: (what, error) => said.push({ text: `${what}: ${error}`, undo: undefined }),
    },
  });
  return { session, log, drafts, sent, said, reopened, state };
}

function refusal(detail: string): ApiError {
  const problem = { code: 'quota_exceeded', detail };
  return new ApiError(new Response(null, { status: 507 }), JSON.stringify(problem), 1);
}

const TO_BOB = { to: [{ address: 'bob@sender.test' }], subject: 'Hi' };

test('a draft is saved at a pause, in place of the one before, and not when nothing was written', async () => {
  const { session, log, drafts } = startSession();
  session.changed();
  await session.save();
  assert.equal(drafts.size, 0);
  for (const text of ['a', 'ab', 'abc']) {
    session.content.text = text;
    session.changed();
  }
  await setTimeout(40);
  assert.deepEqual(log, ['save abc']);
  assert.equal(session.status.value, 'Draft saved');
  session.content.text = 'abcd';
  session.changed();
  await session.close();
  assert.deepEqual(log, ['save abc', 'save abcd', 'close']);
  assert.equal(drafts.size, 1);
});

test('a draft that could not be saved keeps the form open, and is saved with the next change', async () => {
  const { session, log, drafts, state } = startSession(TO_BOB);
  state.failure = new Error('no room');
  session.content.text = 'x';
  session.changed();
  await session.close();
  assert.match(session.trouble.value ?? '', /no room/);
  assert.ok(session.isDirty && !log.includes('close'));
  state.failure = undefined;
  await session.save();
  assert.equal(session.trouble.value, undefined);
  await session.close();
  assert.equal(drafts.size, 1);
  assert.ok(log.includes('close'));
});

test('a draft that the server refuses is told of, and stored again', async () => {
  const { session, state, log } = startSession(TO_BOB);
  state.refusal = refusal('mailbox full');
  session.content.text = 'x';
  session.changed();
  await session.save();
  await setTimeout(1);
  assert.match(session.trouble.value ?? '', /mailbox full/);
  assert.ok(session.isDirty);
  state.refusal = undefined;
  await session.save();
  // The one that was refused is not needed once this one is stored.
  assert.deepEqual(log, ['save x', 'save x', 'forget']);
});

test('a draft that is refused after its form was closed is in a form again, in place of the one before', async () => {
  const { session, log, state, drafts, reopened } = startSession(TO_BOB);
  session.change({ text: 'x' });
  await session.save();
  const [kept] = drafts.keys();
  state.refusal = refusal('mailbox full');
  session.change({ text: 'xy' });
  await session.close();
  assert.ok(!log.includes('close'), 'refused before it is closed');
  state.refusedAfterMs = 1;
  await session.close();
  assert.equal(log.at(-1), 'close');
  await setTimeout(5);
  const [again] = reopened;
  assert.deepEqual([again?.text, again?.kept?.id], ['xy', kept]);
  const forgotten = () => log.filter((line) => line === 'forget').length;
  const before = forgotten();
  await again?.forget?.();
  assert.equal(forgotten(), before + 1);
});

test('a draft that is refused after another text took its place comes back, once', async () => {
  const { session, state, reopened } = startSession(TO_BOB);
  state.refusal = refusal('mailbox full');
  state.refusedAfterMs = 1;
  session.change({ text: 'x' });
  await session.save();
  session.change({ text: 'xy' });
  session.leave();
  await setTimeout(10);
  assert.deepEqual(
    reopened.map(({ text }) => text),
    ['xy'],
  );
});

test('texts that were refused come back one after the other, and in place of none that is written', () => {
  const account = { address: 'a@b.test' } as Account;
  const [open, ...others] = ['open', 'first', 'second'].map(
    (subject) => ({ account, kind: 'new', subject }) as const,
  );
  writing.value = { ...(open ?? assert.fail()), id: 0 };
  for (const one of others) writeAgain(one);
  const shown: unknown[] = [];
  while (writing.value) {
    shown.push('subject' in writing.value && writing.value.subject);
    writing.value = undefined;
  }
  assert.deepEqual(shown, ['open', 'first', 'second']);
  // Who signed out is asked for nothing.
  writing.value = { ...(open ?? assert.fail()), id: 1 };
  writeAgain({ account, kind: 'new' });
  stopWriting(account);
  assert.equal(writing.value, undefined);
});

test('a draft that is thrown away, or sent, is in no form again where it is refused', async () => {
  for (const end of ['discard', 'send'] as const) {
    const { session, state, reopened } = startSession(TO_BOB);
    state.refusal = refusal('mailbox full');
    session.change({ text: 'x' });
    await session.save();
    state.refusal = undefined;
    await session[end]();
    await setTimeout(1);
    assert.deepEqual(reopened, [], end);
  }
});

test('it is sent once, with the draft that it replaces, and no draft is saved after it', async () => {
  const { session, log, drafts, sent } = startSession(TO_BOB);
  session.content.text = 'x';
  session.changed();
  const saving = session.save();
  await Promise.all([session.send(), session.send(), saving]);
  session.changed();
  await session.save();
  assert.deepEqual(log, ['save x', 'send 10', 'close']);
  assert.equal(sent.length, 1);
  assert.deepEqual(sent[0]?.draft, { mailbox: 'Drafts', id: 100 });
  assert.equal(drafts.size, 0);
});

test('a sent message is taken back into the form, as the draft that the server made of it', async () => {
  const { session, said, reopened } = startSession({ ...TO_BOB, text: 'x' });
  await session.send();
  said[0]?.undo?.();
  await setTimeout(1);
  assert.equal(reopened[0]?.text, 'x');
  assert.deepEqual(reopened[0]?.kept, { mailbox: 'Drafts', id: 9 });
});

test('a message that the server refuses is in the form again', async () => {
  const { session, said, reopened, state } = startSession({ ...TO_BOB, text: 'x' });
  state.refusal = refusal('over the limit');
  await session.send();
  await setTimeout(1);
  // The page tells of the refusal, and "Sent" is gone.
  assert.deepEqual([said.length, reopened.length], [0, 1]);
  const again = startSession(reopened[0]);
  again.session.change({ text: 'xy' });
  await again.session.send();
  assert.equal(again.session.content.forget, undefined);
});

test('a message that another tab took back is in no form again: it is a draft there', async () => {
  const { session, reopened, state } = startSession({ ...TO_BOB, text: 'x' });
  state.refusal = new Error('taken back before it went');
  await session.send();
  await setTimeout(1);
  assert.deepEqual(reopened, []);
});

test('without a network in the store the form says so and stays', async () => {
  const { session, state, log } = startSession({ ...TO_BOB, text: 'x' });
  state.failure = new Error('storage is full');
  await session.send();
  assert.match(session.trouble.value ?? '', /storage is full/);
  assert.equal(session.isSending.value, false);
  state.failure = undefined;
  await session.send();
  assert.ok(log.includes('close'));
});

test('an empty subject and a forgotten file are asked about, each once', async () => {
  const { session, log, state, sent } = startSession({ to: TO_BOB.to, text: 'It is attached' });
  state.isYes = false;
  await session.send();
  assert.equal(session.trouble.value, 'The subject is empty.');
  await session.send();
  assert.equal(sent.length, 0);
  await session.send();
  assert.equal(sent.length, 1);
  assert.equal(log.filter((line) => line.endsWith('?')).length, 2);
});

test('files that a draft has are named by the next save and by the mail', async () => {
  const { session, drafts, sent } = startSession(TO_BOB);
  const fromOf = (files: OutgoingMail['attachments']) => files?.map(({ from }) => from?.id);
  session.attach([new File(['a'], 'a.txt')]);
  await session.save();
  session.attach([new File(['b'], 'b.txt')]);
  await session.save();
  const [id, mail] = [...drafts].at(-1) ?? [];
  assert.deepEqual(fromOf(mail?.attachments), [Number(id) - 1, undefined]);
  await session.send();
  assert.deepEqual(fromOf(sent[0]?.attachments), [id, id]);
  // Another device removed the draft: what is here is sent again.
  const again = startSession({ ...session.content });
  const problem = JSON.stringify({ code: 'message_not_found', detail: 'gone' });
  again.state.refusal = new ApiError(new Response(null, { status: 404 }), problem, 1);
  again.session.change({ text: 'x' });
  await again.session.save();
  await setTimeout(1);
  assert.deepEqual(fromOf(again.session.content.files), [undefined, undefined]);
});

test('what is thrown away takes its draft along, and can be had again', async () => {
  const { session, drafts, said, reopened } = startSession(TO_BOB);
  session.content.text = 'x';
  session.changed();
  await session.save();
  assert.equal(drafts.size, 1);
  await session.discard();
  assert.equal(drafts.size, 0);
  said.at(-1)?.undo?.();
  assert.equal(reopened[0]?.text, 'x');
  assert.equal(reopened[0]?.kept, undefined);
});

test('a scheduled message waits for its time, not for second thoughts', async () => {
  const { session, sent, log, said } = startSession({ ...TO_BOB, text: 'x' });
  // In each zone it is this year.
  const sendAt = '2030-06-01T12:00:00.000Z';
  await session.send(sendAt);
  assert.equal(sent[0]?.sendAt, sendAt);
  assert.ok(log.includes('send undefined'));
  assert.match(said[0]?.text ?? '', /It will be sent on .*2030/);
});
