/**
 * Staging: everything that is found out about a message before anybody asks whose it is. One pass
 * over its bytes checks its sender, parses it, and keeps its source.
 */
import type { Bodies } from '../../bodies/bodies.ts';
import {
  holdMessage,
  prependHeader,
  type StagedMessage,
  stageMessage,
} from '../../mailstore/mailstore.ts';
import type { InboundEnvelope } from '../envelope.ts';
import type {
  Judgement,
  SenderCheck,
  SenderChecks,
  Verdicts,
} from '../sender-checks/check-sender.ts';
import { received, returnPath } from '../trace-headers.ts';

/** A message that has arrived, without its bytes. */
export interface ArrivedMail {
  /** What the log and the Received field know it by. */
  readonly id: string;
  readonly envelope: InboundEnvelope;
  /** Milliseconds since 1970. */
  readonly receivedAt: number;
}

export interface StagedMail {
  /** With our trace headers in front. */
  readonly message: StagedMessage;
  /** Absent where the sender was not checked (LMTP: our own MTA did). */
  readonly verdicts?: Verdicts;
}

export interface Staging {
  /**
   * Reads a message to its end.
   *
   * @throws whatever the source or the disk throws; then nothing is left behind
   */
  stage(mail: ArrivedMail, source: AsyncIterable<Uint8Array>): Promise<StagedMail>;
}

export interface StagingOptions {
  readonly bodies: Pick<Bodies, 'stage' | 'discard'>;
  readonly checks: SenderChecks;
  /** Our name in Received headers. */
  readonly hostname: string;
}

/** Stages on the thread that calls. */
export function createStaging({ bodies, ...ours }: StagingOptions): Staging {
  return {
    async stage(mail, source) {
      const { path, head, check } = receive(mail, ours);
      if (!check) {
        return { message: await stageMessage(bodies, source, Buffer.concat([path, head])) };
      }
      const message = await stageMessage(bodies, check.through(source), head);
      const verdicts = await check.verdicts().catch(async (bug: unknown) => {
        await bodies.discard(message.body);
        throw bug;
      });
      return checked(message, path, verdicts);
    },
  };
}

/** Stages a message that is all there and is never to leave memory. */
export async function stageWhole(
  mail: ArrivedMail,
  content: Uint8Array,
  ours: Omit<StagingOptions, 'bodies'>,
): Promise<StagedMail> {
  const { path, head, check } = receive(mail, ours);
  if (!check) return { message: holdMessage([content], Buffer.concat([path, head])) };
  const message = holdMessage([...check.take(content), ...check.end()], head);
  return checked(message, path, await check.verdicts());
}

/** Our trace headers, and the check of the sender if there is to be one. */
interface Reception {
  readonly path: Buffer;
  readonly head: Buffer;
  readonly check: SenderCheck | undefined;
}

function receive(
  { id, envelope, receivedAt }: ArrivedMail,
  { checks, hostname }: Omit<StagingOptions, 'bodies'>,
): Reception {
  const head = received(envelope, { hostname, id, at: new Date(receivedAt) });
  const path = returnPath(envelope);
  if (isLmtp(envelope)) return { path, head, check: undefined };
  const { heloName, remoteAddress } = envelope.arrival;
  return { path, head, check: checks.begin({ from: envelope.from, heloName, remoteAddress }) };
}

function checked(message: StagedMessage, path: Buffer, judgement: Judgement): StagedMail {
  const { authenticationResults, ...verdicts } = judgement;
  // What was found is known at the end only, but stands in front of our Received field.
  const top = Buffer.concat([path, Buffer.from(authenticationResults)]);
  return { message: prependHeader(top, message), verdicts };
}

export function isLmtp({ arrival }: Pick<InboundEnvelope, 'arrival'>): boolean {
  return arrival.protocol.includes('LMTP');
}
