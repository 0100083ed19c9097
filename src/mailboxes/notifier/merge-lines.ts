/** Turns lines of the spool into the events of a batch: one for each mailbox that changed. */

/** A line as the mail server's script writes it; numbers are decimal text. */
interface SpoolLine {
  readonly user: string;
  readonly mailbox: string;
  readonly uidvalidity: string;
  readonly highestmodseq: string;
}

/** An event as POST /hooks/mailserver accepts it. */
export interface MailboxEvent extends SpoolLine {
  readonly event_id: string;
  readonly event_type: 'MailboxesChanged';
}

export interface MergedLines {
  readonly events: readonly MailboxEvent[];
  /** Lines that the script did not write. */
  readonly malformed: readonly string[];
}

/** A line with every name at its longest, escaped to the last character. */
const LINE_MAX = 16_384;
const MODSEQ = /^\d{1,19}$/;

/**
 * Merges lines by user and mailbox, in the order of their first line.
 *
 * @param batchId unique text, from which each event gets an id that is its own for good
 */
export function mergeLines(lines: readonly string[], batchId: string): MergedLines {
  const merged = new Map<string, SpoolLine>();
  const malformed: string[] = [];
  for (const text of lines) {
    const line = readLine(text);
    if (line === undefined) {
      malformed.push(text);
      continue;
    }
    const key = `${line.user}\n${line.mailbox}`;
    merged.set(key, newer(merged.get(key), line));
  }
  const events = [...merged.values()].map((line, index) => ({
    event_id: `${batchId}-${index}`,
    user: line.user,
    event_type: 'MailboxesChanged' as const,
    mailbox: line.mailbox,
    uidvalidity: line.uidvalidity,
    highestmodseq: line.highestmodseq,
  }));
  return { events, malformed };
}

/**
 * Two processes may write in another order than they changed the mailbox: the higher MODSEQ is newer. Under another
 * UIDVALIDITY, MODSEQs begin again, so the later line counts.
 */
function newer(before: SpoolLine | undefined, line: SpoolLine): SpoolLine {
  if (before === undefined || before.uidvalidity !== line.uidvalidity) return line;
  return BigInt(line.highestmodseq) >= BigInt(before.highestmodseq) ? line : before;
}

function readLine(text: string): SpoolLine | undefined {
  if (text.length > LINE_MAX) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const { user, mailbox, uidvalidity, highestmodseq } = value as Record<string, unknown>;
  if (typeof user !== 'string' || user === '') return undefined;
  if (typeof mailbox !== 'string' || mailbox === '') return undefined;
  if (typeof uidvalidity !== 'string' || !MODSEQ.test(uidvalidity)) return undefined;
  if (typeof highestmodseq !== 'string' || !MODSEQ.test(highestmodseq)) return undefined;
  return { user, mailbox, uidvalidity, highestmodseq };
}
