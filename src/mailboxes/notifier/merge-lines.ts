/** Turns lines of the spool into the events of a batch: one for each mailbox that changed. */
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/schema';

const name = Type.String({ minLength: 1 });
const number = Type.String({ pattern: '^[0-9]{1,19}$' });
/** A line as the mail server's script writes it; numbers are decimal text. */
const spoolLine = Type.Object({
  user: name,
  mailbox: name,
  uidvalidity: number,
  highestmodseq: number,
});
const lineFormat = Compile(spoolLine);
type SpoolLine = Readonly<Static<typeof spoolLine>>;

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
  try {
    const value: unknown = JSON.parse(text);
    return lineFormat.Check(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
