/**
 * What the parts of the webmail know of each other: accounts, messages by their names, and what is being written.
 *
 * The shell mounts `Composer` (compose/composer.tsx) with a `Writing`, `ProtocolPanel` (panel/panel.tsx) with an
 * account, and in a thread `MessageBody` (reading/message-body.tsx) with a message; each of them asks the account's
 * client for the rest.
 */
import { shallowRef } from 'vue';
import type { Address, MailClient, MailMessage, MessageId } from '../../sdk/src/mail/client.ts';

/** An account that is signed in here. */
export interface Account {
  readonly address: string;
  readonly client: MailClient;
}

/** A message of an account. */
export interface MessageName {
  readonly mailbox: string;
  readonly id: MessageId;
}

/** What is written: a message of its own, one about another message, or a draft that goes on. */
export type Writing =
  | {
      readonly kind: 'new';
      readonly account: Account;
      readonly to?: readonly Address[];
      readonly subject?: string;
      readonly text?: string;
    }
  | {
      readonly kind: 'reply' | 'reply-all' | 'forward' | 'draft';
      readonly account: Account;
      readonly about: MailMessage;
    };

/** What the composer shows; undefined while it is closed. */
export const writing = shallowRef<Writing>();

/** Opens the composer. It asks what becomes of a text that is open already. */
export function write(what: Writing): void {
  writing.value = what;
}
