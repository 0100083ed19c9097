/**
 * Seconds between one attempt and the next: ten attempts in three days and four hours, on the schedule that Standard
 * Webhooks recommends.
 */
export const webhookDelays: readonly number[] = [
  5,
  5 * 60,
  30 * 60,
  2 * 3600,
  5 * 3600,
  10 * 3600,
  14 * 3600,
  20 * 3600,
  24 * 3600,
];
