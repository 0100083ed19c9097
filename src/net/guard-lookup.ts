import { isIPv6, type LookupFunction } from 'node:net';
import { type AddressFilter, AddressRefused } from './judge-address.ts';

/**
 * Finds the addresses of a host name, those to try first first.
 *
 * @throws where there are none or nobody could be asked
 */
export type ResolveHost = (hostname: string) => Promise<readonly string[]>;

/**
 * The `lookup` of a connection (`net.connect`, `tls.connect`): resolves once, judges every address,
 * and gives the connection only what was judged. One bad address spoils the name: a name that points
 * inside and outside at once is no accident.
 *
 * A host that is an IP address is never looked up: whoever connects judges it first.
 */
export function guardLookup(filter: AddressFilter, resolve: ResolveHost): LookupFunction {
  return (hostname, options, callback) => {
    findAllowed(filter, resolve, hostname, options.family).then(
      (addresses) => {
        const [first] = addresses;
        if (options.all) callback(null, addresses);
        else if (first) callback(null, first.address, first.family);
      },
      (error: NodeJS.ErrnoException) => callback(error, []),
    );
  };
}

async function findAllowed(
  filter: AddressFilter,
  resolve: ResolveHost,
  hostname: string,
  family: number | string | undefined,
): Promise<{ address: string; family: number }[]> {
  const found = await resolve(hostname);
  for (const address of found) {
    const verdict = filter.judge(address);
    if (!verdict.allowed) throw new AddressRefused(hostname, verdict.kind);
  }
  const wanted = family === 4 || family === 'IPv4' ? 4 : family === 6 || family === 'IPv6' ? 6 : 0;
  const addresses = found
    .map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }))
    .filter((entry) => wanted === 0 || entry.family === wanted);
  if (addresses.length > 0) return addresses;
  throw Object.assign(new Error(`${hostname} has no address`), { code: 'ENOTFOUND' });
}
