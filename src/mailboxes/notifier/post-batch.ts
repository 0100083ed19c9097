/** One attempt to post a batch to POST /hooks/mailserver. */
import { createHmac } from 'node:crypto';
import { request } from 'undici';
import type { MailboxEvent } from './merge-lines.ts';

export interface Receiver {
  readonly url: string;
  /** Its UTF-8 bytes are the HMAC key. */
  readonly secret: string;
}

/** The result of an attempt. */
export type PostOutcome =
  | { readonly kind: 'accepted'; readonly rejected: readonly string[] }
  /** The batch itself is wrong, and so will be every attempt. */
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'later'; readonly reason: string; readonly afterMs: number | undefined };

/** From the first byte to the last. */
const TIMEOUT_MS = 30_000;
/** The longest answer lists 1000 lines with an id and a reason each. */
const ANSWER_BYTES = 1_048_576;
/** 400 Bad Request and 413 Content Too Large (RFC 9110 section 15.5). */
const REFUSED = [400, 413];
const RETRY_AFTER_MAX_S = 3600;

/** Posts a batch. @param signal ends the attempt early */
export async function postBatch(
  { url, secret }: Receiver,
  events: readonly MailboxEvent[],
  signal: AbortSignal,
): Promise<PostOutcome> {
  const body = Buffer.from(events.map((event) => `${JSON.stringify(event)}\n`).join(''));
  const signature = createHmac('sha256', secret).update(body).digest('hex');
  try {
    const answer = await request(url, {
      method: 'POST',
      headers: { 'content-type': 'application/x-ndjson', 'x-mailserver-signature': signature },
      body,
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    });
    const text = await readText(answer.body);
    const said = `${answer.statusCode} ${text.slice(0, 300)}`;
    if (answer.statusCode === 200) return { kind: 'accepted', rejected: rejectedLines(text) };
    if (REFUSED.includes(answer.statusCode)) return { kind: 'refused', reason: said };
    return { kind: 'later', reason: said, afterMs: readRetryAfter(answer.headers['retry-after']) };
  } catch (error) {
    const reason = error instanceof Error ? error.message || error.name : String(error);
    return { kind: 'later', reason, afterMs: undefined };
  }
}

async function readText(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > ANSWER_BYTES) break;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** The lines that the receiver refused; it accepts the others. */
function rejectedLines(text: string): string[] {
  try {
    const answer: unknown = JSON.parse(text);
    if (typeof answer !== 'object' || answer === null || !('rejected' in answer)) return [];
    return Array.isArray(answer.rejected)
      ? answer.rejected.map((line) => JSON.stringify(line))
      : [];
  } catch {
    return [];
  }
}

/** Seconds (RFC 9110 section 10.2.3); the other form, a date, counts as none. */
function readRetryAfter(header: string | string[] | undefined): number | undefined {
  if (typeof header !== 'string' || !/^\d{1,9}$/.test(header)) return undefined;
  return Math.min(Number(header), RETRY_AFTER_MAX_S) * 1000;
}
