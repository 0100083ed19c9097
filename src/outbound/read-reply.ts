/** What the far end's reply to a command means for the message. */
import { oneLine } from '../message/message.ts';
import type { SendError } from './outcome.ts';

/** A reply, taken apart. */
export interface Reply {
  /** RFC 5321 section 4.2. */
  readonly status: number;
  /** RFC 3463, where the reply has one. */
  readonly enhancedStatus: string | undefined;
  /** Without the codes. */
  readonly text: string;
}

/** Code, separator, and the enhanced code that must be of the same class (RFC 2034 section 4). */
const LINE = /^([2-5]\d\d)(?:[ -]|$)(?:([245]\.\d{1,3}\.\d{1,3})(?:[ \t]|$))?(.*)$/s;

/** @param reply as it came: lines joined by LF, hostile text */
export function readReply(reply: string): Reply | undefined {
  const lines = reply.slice(0, 8192).split(/\r?\n/);
  let first: Reply | undefined;
  const texts: string[] = [];
  for (const line of lines) {
    const [, code = '', enhanced, text = ''] = LINE.exec(line) ?? [];
    if (code === '') continue;
    const isSameClass = enhanced !== undefined && enhanced[0] === code[0];
    texts.push(isSameClass || enhanced === undefined ? text : `${enhanced} ${text}`);
    first ??= {
      status: Number(code),
      enhancedStatus: isSameClass ? enhanced : undefined,
      text: '',
    };
  }
  return first && { ...first, text: oneLine(texts.join(' ')) };
}

/** The error of a reply that refuses; one without an enhanced code gets the vaguest of its class. */
export function errorOf(reply: Reply, host: string): SendError {
  const { status, text } = reply;
  const enhancedStatus = reply.enhancedStatus ?? `${Math.floor(status / 100)}.0.0`;
  return { status, enhancedStatus, text, host };
}

/**
 * Whether a reply says no for good. 503 is about the order of the commands (RFC 5321 section 4.2.2),
 * which is not the message's fault.
 */
export function isPermanent(status: number): boolean {
  return status >= 500 && status !== 503;
}
