/** The bound of a cache. */

/**
 * Makes an `LRUCache` keep so many entries at most. Its own `max` takes the memory of all of them at once: 50,000 are
 * 10 ms of each start, and megabytes that most installations never fill.
 */
export function entries(most: number) {
  return { maxSize: most, sizeCalculation: () => 1 };
}
