//! A container's books, counted again.

use super::{Container, Page, Place};

impl Container {
    /// Counts everything again.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let count = |wanted: &dyn Fn(&Page) -> bool| {
            self.pages.iter().filter(|page| wanted(page)).count() as u64
        };
        let at = |place: Place| count(&|page: &Page| page.place == place);
        let resident =
            |file: bool| count(&|page: &Page| page.place == Place::Resident && page.file == file);
        let listed = (0..self.pages.len() as u32).all(|number| {
            let resident = self.pages[number as usize].place == Place::Resident;
            self.lists.on(number).is_some() == resident
        });
        let copies = count(&|page: &Page| page.copy.is_some());
        let found = (
            [resident(false), resident(true)],
            at(Place::Zswap),
            at(Place::Device),
            copies,
            listed,
        );
        let kept = self.copies[0] + self.copies[1];
        let booked = (self.resident, self.pooled, self.stored, kept, true);
        if found == booked { Ok(()) } else { Err(format!("{found:?}, booked {booked:?}")) }
    }
}
