/** Rows as text, for the stores that write files. */
import { Buffer } from 'node:buffer';
import type { Row, TableName } from '../mail/store.ts';

/** JSON; the bytes of `blobs` are beside it, as base64. */
export function writeRow(table: TableName, row: Row): string {
  if (table !== 'blobs') return JSON.stringify(row);
  const members = Object.entries(row);
  const isBytes = ([, value]: [string, unknown]) => value instanceof Uint8Array;
  const bytes = members.filter(isBytes).map(([name, value]) => [name, toBase64(value)]);
  const plain = Object.fromEntries(members.filter((member) => !isBytes(member)));
  return JSON.stringify({ plain, bytes });
}

export function readRow(table: TableName, text: string): Row {
  if (table !== 'blobs') return JSON.parse(text) as Row;
  const { plain, bytes } = JSON.parse(text) as { plain: Row; bytes: [string, string][] };
  const read = bytes.map(([name, base64]) => [name, new Uint8Array(Buffer.from(base64, 'base64'))]);
  return { ...plain, ...Object.fromEntries(read) };
}

function toBase64(value: unknown): string {
  return Buffer.from(value as Uint8Array).toString('base64');
}
