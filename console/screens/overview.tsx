import { Heading } from '../ui/basics.tsx';

export const Overview = () => (
  <div class="screen">
    <Heading title="Overview" />
  </div>
);
