/** What can happen. */
export const eventTypes = [
  'message.received',
  'message.sent',
  'send.delivered',
  'send.deferred',
  'send.bounced',
  'domain.active',
  'domain.failing',
  'domain.pending',
  'domain.deleted',
  'account.created',
  'account.suspended',
  'account.resumed',
  'account.deleted',
  'delivery.failed',
] as const;

export type EventType = (typeof eventTypes)[number];

/** What an event tells, by the names of the API; what is undefined is left out. */
export type EventData = Readonly<Record<string, string | number | boolean | undefined>>;

export type NewEvent = {
  readonly type: EventType;
  readonly data: EventData;
} & (
  | { readonly accountId: number; readonly mailbox?: string; readonly uid?: number | undefined }
  | { readonly accountId?: undefined; readonly domainId: number }
);
