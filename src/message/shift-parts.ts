import type { ParsedMessage } from './parse-message.ts';
import type { MessagePart } from './structure.ts';

/**
 * What a message is once `octets` of further header fields stand in front of it: the same parts,
 * further back. Its own header begins with the new fields.
 */
export function shiftParsed(parsed: ParsedMessage, octets: number): ParsedMessage {
  return {
    ...parsed,
    size: parsed.size + octets,
    headerEnd: parsed.headerEnd + octets,
    structure: { ...shiftPart(parsed.structure, octets), headerStart: 0 },
  };
}

function shiftPart(part: MessagePart, octets: number): MessagePart {
  return {
    ...part,
    headerStart: part.headerStart + octets,
    bodyStart: part.bodyStart + octets,
    bodyEnd: part.bodyEnd + octets,
    ...(part.childNodes && {
      childNodes: part.childNodes.map((child) => shiftPart(child, octets)),
    }),
  };
}
