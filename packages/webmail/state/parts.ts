/**
 * What the parts of the webmail know of each other: accounts, and what is being written.
 *
 * The shell mounts `Composer` (compose/composer.tsx) with a `Writing`, `ProtocolPanel` (panel/panel.tsx) with an
 * account, and in a thread `MessageBody` (reading/message-body.tsx) with a message; each of them asks the account's
 * client for the rest.
 */
import { shallowRef } from 'vue';
import type { Address, MailClient, MessageLocation } from '../../sdk/src/mail/client.ts';
import type { ComposeContent } from '../compose/content.ts';

/** An account that is signed in here. */
export interface Account {
  readonly address: string;
  readonly client: MailClient;
}

/** A part that is opened for an account. */
export interface OpenedProps {
  readonly account: Account;
  readonly close: () => void;
}

/** What is written: a message of its own, one about another message, or a draft that goes on. */
export type Writing = {
  readonly account: Account;
  /** What it had before it was taken back: it does not begin anew. */
  readonly again?: ComposeContent;
} & (
  | {
      readonly kind: 'new';
      readonly to?: readonly Address[];
      readonly subject?: string;
      readonly text?: string;
    }
  | { readonly kind: 'reply' | 'reply-all' | 'forward' | 'draft'; readonly about: MessageLocation }
);

/** What the composer shows, undefined while it is closed; and whether that may go: it is saved then. */
export const writing = shallowRef<Writing & { readonly id: number }>();
export const composer = { leave: async () => true };

let lastId = 0;

/** Opens the composer, in place of a text that is open already once that is saved. */
export function write(what: Writing): void {
  void composer.leave().then((mayGo) => {
    lastId += 1;
    if (mayGo) writing.value = { ...what, id: lastId };
  });
}
