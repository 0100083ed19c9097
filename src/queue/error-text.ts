import { Buffer } from 'node:buffer';
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { DeliveryError } from './delivery.ts';

/** Bytes of an error's text that are kept. */
const TEXT_MAX = 500;

const stored = Compile(Type.Object({ status: Type.Optional(Type.Integer()), text: Type.String() }));

/** JSON of an error as it is stored: its text cut to 500 bytes, between two characters. */
export function errorToJson({ status, text }: DeliveryError): string {
  const cut = cutText(text.toWellFormed());
  return JSON.stringify(status === undefined ? { text: cut } : { status, text: cut });
}

/** A stored error that cannot be read hides no other delivery: operators are told so in its place. */
export function errorFromJson(json: string): DeliveryError {
  try {
    const error: unknown = JSON.parse(json);
    if (stored.Check(error)) return error;
  } catch {
    // Not JSON.
  }
  return { text: 'the error that is stored cannot be read' };
}

function cutText(text: string): string {
  const bytes = Buffer.from(text.slice(0, TEXT_MAX));
  if (bytes.length <= TEXT_MAX) return bytes.toString().replace(/\ufffd$/, '');
  // A character that is cut reads as U+FFFD, one for all its bytes.
  return bytes
    .subarray(0, TEXT_MAX)
    .toString()
    .replace(/\ufffd+$/, '');
}
