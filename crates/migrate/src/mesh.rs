//! The interconnect: a mesh of tiles in rows, each with a core and a slice of the last-level cache.

use crate::params::Params;

/// Distances between tiles.
#[derive(Clone, Debug)]
pub struct Mesh {
    /// Column and row of each tile.
    places: Vec<(u8, u8)>,
    hop_ps: u64,
    cores: usize,
    slices: usize,
    /// Hops from each core to each slice: most messages go that way.
    to_slices: Vec<u16>,
}

impl Mesh {
    /// The mesh of a machine. Cores and slices are numbered row by row; where there are more of one
    /// than of the other, the others are spread evenly.
    pub fn new(params: &Params) -> Mesh {
        let (cores, slices) = (params.cores.count as usize, params.llc.slices as usize);
        let columns = params.mesh.columns as usize;
        let place = |tile| ((tile % columns) as u8, (tile / columns) as u8);
        let places = (0..cores.max(slices)).map(place).collect();
        let hop_ps = params.mesh.hop_ps;
        let mut mesh = Mesh { places, hop_ps, cores, slices, to_slices: Vec::new() };
        let ways = (0..cores).flat_map(|core| (0..slices).map(move |slice| (core, slice)));
        let hops = |(core, slice)| mesh.hops(mesh.core_tile(core), mesh.slice_tile(slice)) as u16;
        mesh.to_slices = ways.map(hops).collect();
        mesh
    }

    #[inline]
    fn hops(&self, from: usize, to: usize) -> u64 {
        let (a, b) = (self.places[from], self.places[to]);
        u64::from(a.0.abs_diff(b.0)) + u64::from(a.1.abs_diff(b.1))
    }

    /// The tile of a core.
    #[inline]
    pub fn core_tile(&self, core: usize) -> usize {
        if self.cores >= self.slices { core } else { core * self.slices / self.cores }
    }

    /// The tile of a slice.
    #[inline]
    pub fn slice_tile(&self, slice: usize) -> usize {
        if self.slices >= self.cores { slice } else { slice * self.cores / self.slices }
    }

    /// Hops and picoseconds from one tile to another.
    #[inline]
    pub fn way(&self, from: usize, to: usize) -> (u64, u64) {
        let hops = self.hops(from, to);
        (hops, hops * self.hop_ps)
    }

    /// Hops and picoseconds from a core to a slice.
    #[inline]
    pub fn to_slice(&self, core: usize, slice: usize) -> (u64, u64) {
        let hops = u64::from(self.to_slices[core * self.slices + slice]);
        (hops, hops * self.hop_ps)
    }

    /// Mean picoseconds there and back between a core and a slice.
    pub fn mean_round_trip_ps(&self) -> u64 {
        let hops: u64 = self.to_slices.iter().copied().map(u64::from).sum();
        2 * hops * self.hop_ps / (self.cores * self.slices) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_rows_and_columns() {
        let mesh = Mesh::new(&Params::default());
        assert_eq!(mesh.way(0, 0), (0, 0));
        assert_eq!(mesh.way(0, 27), (3 + 4, 7000), "28 tiles in rows of six: row 4, column 3");
        assert_eq!(mesh.way(27, 0), mesh.way(0, 27));
        // The default LLC's 59 cycles and the way there and back are the 77 of its source.
        let cycles = mesh.mean_round_trip_ps() / 400 + Params::default().llc.cycles;
        assert!((76..=78).contains(&cycles), "{cycles}");
    }

    #[test]
    fn few_slices_are_spread_over_many_cores() {
        let params =
            Params::read("[cores]\ncount = 4\n[llc]\nslices = 2\n[mesh]\ncolumns = 2").unwrap();
        let mesh = Mesh::new(&params);
        assert_eq!([mesh.slice_tile(0), mesh.slice_tile(1), mesh.core_tile(3)], [0, 2, 3]);
        // Hops from cores 0 to 3 to tile 0: 0 1 1 2; to tile 2: 1 2 0 1; sum 8 of 8 ways.
        assert_eq!(mesh.mean_round_trip_ps(), 2000);
    }
}
