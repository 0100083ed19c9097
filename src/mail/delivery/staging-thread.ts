/** The thread of staging.ts: it checks and parses messages, with a resolver of its own. */
import { workerData } from 'node:worker_threads';
import { readTerms } from '../../mailboxes/search/search.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { answerRequests, tell } from '../../platform/threads/threads.ts';
import { MessageParser, putInFront } from '../../protocols/message/message.ts';
import { openSenderChecks } from './sender-checks/open-checks.ts';
import type { Asked, MailToCheck, StagingAnswer, StagingSettings, Told } from './staging.ts';

/** Questions to DNS since the last answer. */
const asked: Asked[] = [];
const { readsTerms, ...settings } = workerData as StagingSettings;
const { checks } = openSenderChecks(settings, {
  onAsked: (...question) => asked.push(question),
  onOutage: (isOut) => tell({ isOut } satisfies Told),
});

async function stage({ client, head, bytes }: MailToCheck) {
  const check = checks.begin(client);
  const parser = new MessageParser();
  const pieces: Uint8Array[] = [];
  for await (const piece of putInFront(head, check.through(once(bytes)))) {
    parser.write(piece);
    pieces.push(piece);
  }
  const parsed = parser.end();
  const content = new Uint8Array(parsed.size);
  let at = 0;
  for (const piece of pieces) {
    content.set(piece, at);
    at += piece.length;
  }
  const terms = readsTerms ? await readTerms(parsed, content) : undefined;
  return { parsed, content, terms, judgement: await check.verdicts() };
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

async function answer(mail: MailToCheck): Promise<StagingAnswer> {
  try {
    return { staged: await stage(mail), asked: asked.splice(0) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const { code, message: detail } = error;
    return { refused: { code, detail }, asked: asked.splice(0) };
  }
}

answerRequests(answer, ({ staged }) => (staged ? [staged.content.buffer] : []));
tell({ isReady: true } satisfies Told);
