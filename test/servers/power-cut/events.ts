/** What record-io.c has recorded. */
export interface Event {
  readonly kind: 'write' | 'truncate' | 'begin' | 'end' | 'unlink';
  /** Of the path: `` is the database, `-wal` its log, `-acks` what was acknowledged, `/` the folder. */
  readonly suffix: string;
  /** The thread, of the beginning and the end of a sync; the new size, of a truncation. */
  readonly offset: number;
  readonly data: Buffer;
}

const KINDS: Record<string, Event['kind']> = {
  w: 'write',
  t: 'truncate',
  b: 'begin',
  e: 'end',
  u: 'unlink',
};
const HEADER_BYTES = 24;

/** Reads a recording; a record that was cut off at the end is left out. */
export function readEvents(recording: Buffer): Event[] {
  const events: Event[] = [];
  let at = 0;
  while (at + HEADER_BYTES <= recording.length) {
    const kind = KINDS[String.fromCharCode(recording.readUInt32LE(at))];
    if (!kind) throw new Error(`no record at ${at}`);
    const dataAt = at + HEADER_BYTES + recording.readUInt32LE(at + 4);
    const end = dataAt + recording.readUInt32LE(at + 8);
    if (end > recording.length) break;
    events.push({
      kind,
      suffix: recording.toString('latin1', at + HEADER_BYTES, dataAt),
      offset: Number(recording.readBigUInt64LE(at + 16)),
      data: recording.subarray(dataAt, end),
    });
    at = end;
  }
  return events;
}
