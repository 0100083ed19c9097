/** Where samples call: the default address, which a page replaces by its own (`theme/own-address.ts`). */
export const SAMPLE_ADDRESS = 'http://127.0.0.1:8080';
