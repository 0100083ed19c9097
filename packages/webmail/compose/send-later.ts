/** Times at which people want mail to arrive. */

/** The hour at which a day begins for whoever reads mail. */
const MORNING = 8;

/** @returns the near ones first, each in the future */
export function laterTimes(now: Date) {
  const inAnHour = new Date(now.getTime() + 3_600_000);
  const evening = at(now, 0, 18);
  const toMonday = (8 - now.getDay()) % 7 || 7;
  return [
    { label: 'In an hour', at: inAnHour },
    ...(evening > inAnHour ? [{ label: 'This evening', at: evening }] : []),
    { label: 'Tomorrow morning', at: at(now, 1, MORNING) },
    ...(toMonday > 1 ? [{ label: 'Monday morning', at: at(now, toMonday, MORNING) }] : []),
  ];
}

function at(now: Date, days: number, hour: number): Date {
  return new Date(now.getFullYear(), now.getMonth(), now.getDate() + days, hour);
}

/** As `datetime-local` wants it: local time, to the minute. */
export function toLocalInput(date: Date): string {
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16);
}
