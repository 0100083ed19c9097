/** The thread of staging.ts: it checks and parses messages, with a resolver of its own. */
import { parentPort, workerData } from 'node:worker_threads';
import { readTerms } from '../../mailboxes/search/search.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { MessageParser, putInFront } from '../../protocols/message/message.ts';
import { openSenderChecks } from './sender-checks/open-checks.ts';
import type { Asked, Posted, StagingAnswer, StagingRequest, StagingSettings } from './staging.ts';

const port = parentPort;
if (!port) throw new Error('this file is run as a thread');
const tell = (posted: Posted, given: ArrayBuffer[] = []) => port.postMessage(posted, given);

/** Questions to DNS since the last answer. */
let asked: Asked[] = [];
const { readsTerms, ...settings } = workerData as StagingSettings;
const { checks } = openSenderChecks(settings, {
  onAsked: (...question) => asked.push(question),
  onOutage: (isOut) => tell({ isOut }),
});

async function stage({ client, head, bytes }: StagingRequest) {
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

async function answer(request: StagingRequest): Promise<StagingAnswer> {
  const { id } = request;
  try {
    return { id, staged: await stage(request) };
  } catch (error) {
    if (!(error instanceof Refusal)) return { id, failure: String(error) };
    const { code, message: detail } = error;
    return { id, refused: { code, detail } };
  }
}

function post(answered: StagingAnswer): void {
  const { staged } = answered;
  tell({ ...answered, asked }, staged ? [staged.content.buffer] : []);
  asked = [];
}

port.on('message', (request: StagingRequest) => void answer(request).then(post));
tell({ isReady: true });
