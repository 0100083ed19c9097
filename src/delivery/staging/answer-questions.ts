/** The staging thread's own side: stages what it is sent, in memory. */
import type { MessagePort } from 'node:worker_threads';
import { writeMessage } from '../../message/message.ts';
import { type StagingOptions, stageWhole } from './staging.ts';
import { ownMemory, type StagingAnswer, type StagingQuestion } from './staging-port.ts';

type Options = Pick<StagingOptions, 'checks' | 'hostname'>;

/** Says that it is ready, then answers every question that comes through the port. */
export function answerQuestions(port: MessagePort, options: Options): void {
  port.on('message', (question: StagingQuestion) => {
    // One answer each, not all of a turn together: the other thread commits while this one goes on.
    void answer(question, options).then((said) =>
      port.postMessage(said, said.kind === 'staged' ? [said.content.buffer] : []),
    );
  });
  port.postMessage({ kind: 'ready' } satisfies StagingAnswer);
}

async function answer(
  { id, mail, content }: StagingQuestion,
  options: Options,
): Promise<StagingAnswer> {
  try {
    const { message, verdicts } = await stageWhole(mail, content, options);
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
