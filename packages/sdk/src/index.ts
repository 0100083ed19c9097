/** `@postroom/sdk`: for the backend of a product. */
export type * from './api-types.ts';
export { ApiError, ConnectionError, type ErrorCode, type FieldError } from './errors.ts';
export type { EventDataOf, EventOptions, EventType, UserEvent } from './events.ts';
export type {
  AnswerOf,
  Call,
  ItemOf,
  ListId,
  OperationClient,
  ParametersOf,
} from './operations.ts';
export { type Page, Pages } from './pages.ts';
export { Postroom, type PostroomOptions } from './postroom.ts';
export type { ApiAnswer, CallOptions } from './transport.ts';
export {
  Accounts,
  Deliveries,
  Domains,
  EventHookOfUser,
  Suppressions,
  UserScope,
  type WaitOptions,
} from './user.ts';
