/**
 * The form in which the payload of a delivery lies in the database: JSON with its version as `v`. It is
 * checked whenever it is read: another version of the program may have written it.
 *
 * The version stays the same as long as a program that knows only the old form can read the new one:
 * a new optional member does no harm, since members that are not known are ignored. Otherwise one
 * release reads the new version, and the next one writes it.
 */
import type { Static, TObject } from 'typebox';
import { Compile } from 'typebox/compile';

/** A payload that this program cannot read; the message says why. */
export class UnreadablePayload extends Error {
  override readonly name = 'UnreadablePayload';
}

/** Writes and reads the payloads of one kind of delivery. */
export interface PayloadFormat<Payload> {
  write(payload: Payload): string;
  /** @throws UnreadablePayload */
  read(json: string): Payload;
}

/** @param schema of the payload, without `v` */
export function payloadFormat<Schema extends TObject>(
  version: number,
  schema: Schema,
): PayloadFormat<Static<Schema>> {
  const validator = Compile(schema);
  return {
    write: (payload) => JSON.stringify({ v: version, ...payload }),
    read(json) {
      const value = parse(json);
      const found = versionOf(value);
      if (found !== version) {
        throw new UnreadablePayload(
          `the payload is of version ${JSON.stringify(found)}, this program reads version ${version}`,
        );
      }
      if (validator.Check(value)) return value;
      const [error] = validator.Errors(value);
      throw new UnreadablePayload(
        `the payload is not valid: ${error?.instancePath || 'it'} ${error?.message}`,
      );
    },
  };
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    throw new UnreadablePayload('the payload is not JSON', { cause: error });
  }
}

function versionOf(value: unknown): unknown {
  return typeof value === 'object' && value !== null && 'v' in value ? value.v : undefined;
}
