/**
 * A parsed message as it is stored and sent: its envelope and structure as texts of JSON. Most mail is
 * parsed by one thread, stored by another, and looked into by neither, so that what was written once
 * goes to storage as it is.
 */
import type { Envelope } from './envelope.ts';
import type { ParsedMessage } from './parse-message.ts';
import type { MessagePart } from './structure.ts';

/** JSON of what a message's row holds. */
export interface MessageTexts {
  readonly envelope: string;
  readonly structure: string;
}

/** Plain data, which another thread can be sent. */
export interface WrittenMessage extends MessageTexts {
  readonly size: number;
  readonly headerEnd: number;
}

/** What a message was read from, and what of it was parsed by now. */
interface Reading {
  readonly texts: MessageTexts;
  envelope?: Envelope;
  structure?: MessagePart;
}

/**
 * Of messages that were read. Not a field of theirs: it would be stored with the message where that is
 * part of something queued, and a changed copy would keep the texts of the original.
 */
const readings = new WeakMap<ParsedMessage, Reading>();

function readingOf(parsed: ParsedMessage): Reading {
  const reading = readings.get(parsed);
  if (!reading) throw new Error('the message was not read from texts');
  return reading;
}

/**
 * Properties of the message's own, which copies and JSON.stringify take along. Shared by all messages:
 * accessors of a literal are made anew for each, in the part of the heap that is seldom cleared.
 */
const lazily: PropertyDescriptorMap & ThisType<ParsedMessage> = {
  envelope: {
    enumerable: true,
    get() {
      const reading = readingOf(this);
      reading.envelope ??= JSON.parse(reading.texts.envelope) as Envelope;
      return reading.envelope;
    },
  },
  structure: {
    enumerable: true,
    get() {
      const reading = readingOf(this);
      reading.structure ??= JSON.parse(reading.texts.structure) as MessagePart;
      return reading.structure;
    },
  },
};

/** The texts of a message, which are not written again where it was read from them. */
export function textsOf(parsed: ParsedMessage): MessageTexts {
  return (
    readings.get(parsed)?.texts ?? {
      envelope: JSON.stringify(parsed.envelope),
      structure: JSON.stringify(parsed.structure),
    }
  );
}

export function writeMessage(parsed: ParsedMessage): WrittenMessage {
  const { envelope, structure } = textsOf(parsed);
  return { size: parsed.size, envelope, structure, headerEnd: parsed.headerEnd };
}

/** The message again; neither text is parsed before somebody wants to know what it says. */
export function readWritten({ size, headerEnd, ...texts }: WrittenMessage): ParsedMessage {
  // In the order of a parsed one.
  const parsed = Object.assign(Object.defineProperties({ size }, lazily), { headerEnd });
  const message = parsed as ParsedMessage;
  readings.set(message, { texts });
  return message;
}
