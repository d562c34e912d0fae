//! The seed of a machine, to look at.

use std::sync::Arc;

use providerkit_backend::{Error, Machine, MachineId, OperationId};

use crate::{catalogue::Catalogue, plan::Plan, pool::listed, settings::Settings};

/// What an operation which makes a machine would give it for its first boot: cloud-init's image, or the configuration for
/// Ignition.
///
/// # Errors
/// When no slot of the settings has the machine, or its image cannot be made.
pub fn seed(settings: Settings, machine: &MachineId, operation: OperationId) -> Result<Vec<u8>, Error> {
    let catalogue = Catalogue::new(&settings.provider, &settings.offerings);
    let slot = catalogue.slot_of(machine);
    let Some(place) = catalogue.slot(slot) else {
        let names = catalogue.slots().iter().map(|place| place.name.to_string());
        return Err(Error::new(format!(
            "no slot has machine `{machine}`; {}",
            listed("there are", names)
        )));
    };
    let profile = Machine::new(machine.clone(), Arc::clone(&place.profile));
    let plan = Plan::new(
        &Arc::new(settings),
        &profile,
        slot,
        operation,
        place.instance_type.clone(),
    );
    Ok(plan.first_boot()?)
}
