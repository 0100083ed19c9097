/**
 * The operator's view of all users: the routes below /v2/operator, and the sessions of the console. `console_sessions`
 * has a row for each signed-in console. The rules for what is listed or changed are in the folders that own the data.
 */
export { operatorAccountRoutes } from './account-routes.ts';
export { type Attention, attentionRoutes } from './attention-routes.ts';
export { auditRoutes } from './audit-routes.ts';
export { blockRoutes } from './block-routes.ts';
export { operatorChangeRoutes } from './change-routes.ts';
export { domainRoutes as operatorDomainRoutes } from './domain-list.ts';
export type { OperatedDomainDetails } from './domain-routes.ts';
export { imapSessionRoutes } from './imap-session-routes.ts';
export { keyRoutes } from './key-routes.ts';
export { messageRoutes } from './message-routes.ts';
export { overviewRoutes } from './overview-routes.ts';
export type { OrderStep } from './queue-orders.ts';
export { queueRoutes } from './queue-routes.ts';
export { logLevelRoute, serviceRoutes } from './service-routes.ts';
export { consoleCookie, sessionFinder, sessionRoutes, signInRoute } from './session-routes.ts';
export { ConsoleSessions } from './sessions.ts';
export { traceRoutes } from './trace-routes.ts';
export { usageRoutes } from './usage-routes.ts';
