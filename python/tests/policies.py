"""Policies that several tests and the book show."""

import prairie


# ANCHOR: confine
class Confine(prairie.Policy):
    """unmovable memory in the upper quarter of each zone"""

    def boot(self, core: prairie.Core) -> None:
        self.kernel = set()
        for zone in core.regions:
            if zone.frames >= 8192:
                upper = core.divide(zone, zone.start + zone.frames // 4 * 3)
                self.kernel.add(upper.index)

    def allocate(self, core: prairie.Core, request: prairie.Request) -> int | None:
        unmovable = request.mobility == "unmovable"
        regions = core.regions_for(request)
        for region in sorted(regions, key=lambda region: (region in self.kernel) != unmovable):
            block = core.take_block(request.order, region)
            if block is not None:
                return block
        return None
# ANCHOR_END: confine


class Batched(Confine):
    """the same, decided for many requests at once"""

    def boot(self, core: prairie.Core) -> None:
        super().boot(core)
        # One table for each zone: a request's mobility gives its place.
        zones = ("DMA", "DMA32", "Normal", "HighMem", "Movable", "Device")
        self.table = bytearray([prairie.ASK] * 256)
        best = [region for region in core.regions if region.zone == "Normal"] or core.regions
        assert all(region.zone in zones for region in best)
        for region in best:
            mobility = 2 if region.index in self.kernel else 1
            self.table[mobility] = prairie.place(region)

    def allocate_many(self, core: prairie.Core, requests: prairie.Requests) -> bytes:
        normal = bytes(2 if zone >= 2 else 0 for zone in range(256))
        allowed = requests.zone.translate(normal)
        places = requests.mobility.translate(bytes(self.table))
        if allowed.count(2) == len(allowed):
            return places
        return bytes(p if ok else prairie.ASK for p, ok in zip(places, allowed))
