/** Our own mailboxes: they take a message in the transaction that accepts it, or that ends its delivery. */
import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import type { Changes } from '../../mailboxes/changes/changes.ts';
import {
  type Advanced,
  describeStored,
  type EmbeddedMailstore,
  mailboxChange,
  type Quotas,
  quotaExceeded,
} from '../../mailboxes/mailstore/mailstore.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { writeEvents } from '../../tenants/events/events.ts';
import type { Job } from '../queue/queue.ts';
import type { MailboxPayload } from './kinds.ts';
import {
  type MailboxAttempt,
  type MailboxStorage,
  type MailboxTarget,
  type MailToStore,
  mailToStore,
  NOTHING_STORED,
  type PreparedStoring,
  type StoringOptions,
} from './mailbox-storage.ts';
import { receivedEvent, storedIn } from './record-mail.ts';

export interface OwnMailboxesOptions {
  readonly mailstore: Pick<EmbeddedMailstore, 'append' | 'plain' | 'quotas'>;
  readonly bodies: Pick<Bodies, 'get' | 'read'>;
  /** Publishes a change once it is committed. */
  readonly changes: Pick<Changes, 'publish'>;
  readonly now?: () => EpochMs;
}

export class OwnMailboxes implements MailboxStorage {
  readonly quotas: Quotas;
  readonly #options: OwnMailboxesOptions;

  constructor(options: OwnMailboxesOptions) {
    this.#options = options;
    this.quotas = options.mailstore.quotas;
  }

  async prepare(
    mail: MailToStore,
    targets: readonly MailboxTarget[],
    { limited = new Set() }: StoringOptions,
  ): Promise<PreparedStoring> {
    if (targets.length === 0) return NOTHING;
    const { mailstore, changes, now = Date.now } = this.#options;
    const { id, describe } = mail;
    // The texts are in memory before the transaction: no other write waits for a file.
    const texts = await describe();
    const [target, ...others] = targets;
    const message =
      target && others.length + limited.size === 0 ? mailstore.plain(texts, target) : undefined;
    const afterCommit = (mailbox: Advanced) => {
      if (target) changes.publish(mailboxChange(target.user, mailbox, mailbox.highestmodseq));
    };
    return {
      plain: message && target && { message, texts, target, afterCommit },
      commit: async (tx, keepBody) => {
        const full = await this.quotas.findFull(tx, [...limited], texts.size);
        const refused = new Map([...full].map((accountId) => [accountId, quotaExceeded()]));
        const fitting = targets.filter(({ user }) => !full.has(user.accountId));
        const appended =
          fitting.length === 0
            ? []
            : await mailstore.append(tx, { ...texts, bodyId: await keepBody() }, fitting);
        for (const { user } of fitting) {
          // The account was deleted after it was resolved.
          if (!appended.some((one) => one.user === user)) refused.set(user.accountId, gone());
        }
        const events = appended.map(({ user, uid, change: { mailbox } }) =>
          receivedEvent(mail, user, texts, { mailbox, uid }),
        );
        await writeEvents(tx, events, now());
        return {
          refused,
          traced: appended.map(({ user, uid, change: { mailbox } }) =>
            storedIn(id, user, { mailbox, uid }),
          ),
          locations: appended.map(({ user: { address }, uid, change: { mailbox } }) => {
            return { address, mailbox, uid };
          }),
          namesBody: appended.length > 0,
          afterCommit() {
            for (const { change } of appended) changes.publish(change);
          },
        };
      },
    };
  }

  /** For deliveries that were queued for a mail server which is no longer used, and failed ones that an operator retries. */
  async attempt({ bodyId, payload }: Job<MailboxPayload>): Promise<MailboxAttempt> {
    const { bodies } = this.#options;
    const { user, recipient, mailbox, origin } = payload;
    const body = await bodies.get(bodyId);
    const mail = mailToStore(origin, body, () => describeStored(bodies, body));
    const target = { user, recipient, mailbox, internalDate: origin.receivedAt };
    return {
      result: 'delivered',
      storing: await this.prepare(mail, [target], { answers: 'none' }),
    };
  }
}

/** For a message without a mailbox here, which is only queued: nothing of it is read. */
const NOTHING: PreparedStoring = { commit: async () => NOTHING_STORED };

function gone(): Refusal {
  return new Refusal('account_not_found', 'there is no such account any more');
}
