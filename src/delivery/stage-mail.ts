/**
 * Staging: everything that is found out about a message before anybody asks whose it is. One pass
 * over its bytes checks its sender, parses it, and keeps its source.
 */
import type { Bodies } from '../bodies/bodies.ts';
import { prependHeader, type StagedMessage, stageMessage } from '../mailstore/mailstore.ts';
import type { InboundEnvelope } from './envelope.ts';
import type { SenderCheck, SenderChecks, Verdicts } from './sender-checks/check-sender.ts';
import { received, returnPath } from './trace-headers.ts';

/** A message that has arrived, without its bytes. */
export interface ArrivedMail {
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

export interface StagingOptions {
  readonly bodies: Pick<Bodies, 'stage' | 'discard'>;
  readonly checks: SenderChecks;
  /** Our name in Received headers. */
  readonly hostname: string;
}

/**
 * Reads a message to its end.
 *
 * @throws whatever the source or the disk throws; then nothing is left behind
 */
export async function stageMail(
  { bodies, checks, hostname }: StagingOptions,
  { envelope, receivedAt }: ArrivedMail,
  source: AsyncIterable<Uint8Array>,
): Promise<StagedMail> {
  const path = returnPath(envelope);
  const head = received(envelope, { hostname, at: new Date(receivedAt) });
  if (isLmtp(envelope)) {
    return { message: await stageMessage(bodies, source, Buffer.concat([path, head])) };
  }
  const { heloName, remoteAddress } = envelope.arrival;
  const check = checks.begin({ from: envelope.from, heloName, remoteAddress });
  const message = await stageMessage(bodies, check.through(source), head);
  const { authenticationResults, ...verdicts } = await verdictsOf(check, () =>
    bodies.discard(message.body),
  );
  // What was found is known at the end only, but stands in front of our Received field.
  const top = Buffer.concat([path, Buffer.from(authenticationResults)]);
  return { message: prependHeader(top, message), verdicts };
}

async function verdictsOf(check: SenderCheck, discard: () => Promise<void>) {
  try {
    return await check.verdicts();
  } catch (bug) {
    await discard();
    throw bug;
  }
}

export function isLmtp({ arrival }: Pick<InboundEnvelope, 'arrival'>): boolean {
  return arrival.protocol.includes('LMTP');
}
