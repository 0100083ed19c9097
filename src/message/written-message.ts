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

/**
 * The texts that messages were read from. Not a field of theirs: it would be stored with the message
 * where that is part of something queued, and a changed copy would keep the texts of the original.
 */
const known = new WeakMap<ParsedMessage, MessageTexts>();

/** The texts of a message, which are not written again where it was read from them. */
export function textsOf(parsed: ParsedMessage): MessageTexts {
  return (
    known.get(parsed) ?? {
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
export function readWritten(texts: WrittenMessage): ParsedMessage {
  let envelope: Envelope | undefined;
  let structure: MessagePart | undefined;
  // Properties of its own, which copies and JSON.stringify take along, in the order of a parsed one.
  const parsed: ParsedMessage = {
    size: texts.size,
    get envelope() {
      envelope ??= JSON.parse(texts.envelope) as Envelope;
      return envelope;
    },
    get structure() {
      structure ??= JSON.parse(texts.structure) as MessagePart;
      return structure;
    },
    headerEnd: texts.headerEnd,
  };
  known.set(parsed, texts);
  return parsed;
}
