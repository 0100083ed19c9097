/**
 * Events: what happened to a user's mail, domains and accounts, for the backend of the product. Owns table `events`: a
 * row for each, kept EVENT_DAYS. Rows are thin: ids and what an envelope shows, no text of a message, below 1 KB.
 *
 * Whoever changes something writes its events in the same transaction ({@link writeEvents}): so none is missing after a
 * crash, and none is told of something that did not happen. After the commit the readers of the user are woken by his
 * `user_id` (`Database.notices`, and `changes/` to other nodes). That is only a hint: a reader always reads the rows
 * after its own place (`read-events.ts`).
 *
 * A user may have one URL to which his events are posted, too: a row of `event_hooks` (`mail/webhooks/event-hooks.ts`).
 *
 * An event belongs to the owner of its account or domain, whom the statement that writes it looks up itself.
 */
export { type AccountOwner, EventFeed, type FollowedMailbox, type Follower } from './feed.ts';
export {
  type EventHook,
  findHook,
  listHooks,
  moveHook,
  removeHook,
  saveHook,
} from './hook-rows.ts';
export {
  describeEvent,
  type Event,
  type EventPage,
  type EventScope,
  Events,
  OLDEST_CURSOR,
  pruneEvents,
} from './read-events.ts';
export {
  type EventData,
  type EventType,
  eventData,
  eventTypes,
  insertAccountEvent,
  type NewEvent,
  writeEvents,
} from './write-events.ts';
