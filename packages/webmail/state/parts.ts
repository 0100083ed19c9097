/**
 * What the parts of the webmail know of each other: accounts, and what is being written.
 *
 * The shell mounts `Composer` (compose/composer.tsx) with a `Writing`, `ProtocolPanel` (panel/panel.tsx) with an
 * account, and in a thread `MessageBody` (reading/message-body.tsx) with a message; each of them asks the account's
 * client for the rest.
 */
import { shallowRef, watch } from 'vue';
import type { Address, MailClient, MessageLocation, Operation } from '../../sdk/src/mail/client.ts';
import type { ComposeContent } from '../compose/content.ts';

/** An account that is signed in here. */
export interface Account {
  readonly address: string;
  readonly client: MailClient;
  /** What was refused is a draft again, or is not wanted any more. */
  settle(operation: Operation, how: 'undo' | 'forget'): Promise<void>;
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

/** Texts that the server refused after their window had closed. */
export const refused = shallowRef<readonly Writing[]>([]);

/** Opens it once nothing else is written: that would be saved in turn, and perhaps come back as well. */
export function writeAgain(what: Writing): void {
  refused.value = [...refused.value, what];
  openRefused();
}

function openRefused(): void {
  const [first, ...others] = refused.value;
  if (writing.value || !first) return;
  refused.value = others;
  lastId += 1;
  writing.value = { ...first, id: lastId };
}

watch(writing, openRefused, { flush: 'sync' });

/** Of an account that signs out. */
export function stopWriting(account: Account): void {
  refused.value = refused.value.filter((one) => one.account !== account);
  if (writing.value?.account === account) writing.value = undefined;
}
