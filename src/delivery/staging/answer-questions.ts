/** The staging thread's own side: stages what it is sent, in memory. */
import type { MessagePort } from 'node:worker_threads';
import { holdBody } from '../../bodies/bodies.ts';
import { writeMessage } from '../../message/message.ts';
import { createStaging, type Staging, type StagingOptions } from './staging.ts';
import { ownMemory, type StagingAnswer, type StagingQuestion } from './staging-port.ts';

/**
 * Bodies that never leave memory, since only small ones are sent here. They come whole, and the checks
 * cut them into a handful of pieces, which are kept as they are and joined once. Where mail comes from
 * a client, `Bodies.stage` has to gather it: there the client says how many pieces it is.
 */
const inMemory: StagingOptions['bodies'] = {
  async stage(source, observe) {
    const pieces: Uint8Array[] = [];
    for await (const chunk of source) {
      observe(chunk);
      pieces.push(chunk);
    }
    return holdBody(pieces);
  },
  async discard() {},
};

/** Says that it is ready, then answers every question that comes through the port. */
export function answerQuestions(
  port: MessagePort,
  options: Pick<StagingOptions, 'checks' | 'hostname'>,
): void {
  const staging = createStaging({ ...options, bodies: inMemory });
  port.on('message', (question: StagingQuestion) => {
    // One answer each, not all of a turn together: the other thread commits while this one goes on.
    void answer(staging, question).then((said) =>
      port.postMessage(said, said.kind === 'staged' ? [said.content.buffer] : []),
    );
  });
  port.postMessage({ kind: 'ready' } satisfies StagingAnswer);
}

async function answer(
  staging: Staging,
  { id, mail, content }: StagingQuestion,
): Promise<StagingAnswer> {
  try {
    const { message, verdicts } = await staging.stage(mail, once(content));
    const joined = ownMemory(message.body.content);
    // Given back at once: what refers to parts of it may do so until a full collection, unread.
    if (joined.buffer !== content.buffer) content.buffer.transfer(0);
    return {
      kind: 'staged',
      id,
      message: writeMessage(message.parsed),
      ...(verdicts && { verdicts: JSON.stringify(verdicts) }),
      content: joined,
    };
  } catch (error) {
    // As text: not everything that an error may hold can be sent to another thread.
    const bug = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { kind: 'failed', id, bug };
  }
}

async function* once(content: Uint8Array): AsyncGenerator<Uint8Array> {
  yield content;
}
