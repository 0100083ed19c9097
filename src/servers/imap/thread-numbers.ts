/** What is kept of a message for THREAD (RFC 5256): texts of strangers, as numbers that tell whether two are equal. */
import { hash } from 'node:crypto';
import type { BaseSubject } from './sort-keys.ts';

export interface ThreadedMessage {
  /** Its own id and those of earlier messages, without angle brackets; the last one is of the message that it answers. */
  readonly id: string | undefined;
  readonly references: readonly string[];
  /** Milliseconds since 1970. */
  readonly sentAt: number;
  /** As it is compared. */
  readonly subject: BaseSubject;
}

/** When it was sent, its id, its subject, and whether that is of a reply come first. */
export const REFERENCES_AT = 4;

/** The numbers of a message. Texts are numbers of 48 bits: an id may have a thousand characters; 0 is none. */
export function threadNumbers({ id, references, sentAt, subject }: ThreadedMessage): number[] {
  return [
    sentAt,
    id === undefined ? 0 : numberOfText(normalizeId(id)),
    subject.text === '' ? 0 : numberOfText(subject.text),
    subject.isReply ? 1 : 0,
    ...references.map((one) => numberOfText(normalizeId(one))),
  ];
}

function numberOfText(text: string): number {
  return Number.parseInt(hash('sha256', text).slice(0, 12), 16);
}

/** A quoted local part means the same without its quotes (RFC 5256 section 2). */
function normalizeId(id: string): string {
  const [, local, domain] = /^"((?:[^"\\]|\\.)*)"(@.*)$/.exec(id) ?? [];
  return local === undefined ? id : local.replace(/\\(.)/g, '$1') + domain;
}
