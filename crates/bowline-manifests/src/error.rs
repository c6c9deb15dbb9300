//! The reasons for which there are no manifests.

use bowline_runtime::DESCRIPTION_FORMAT;

/// An option or a part of the description that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The operator's name cannot be the name of its objects.
    #[error(
        "the operator's name {name:?} is not valid: use at most {limit} lower case letters, digits and '-', with a letter first and \
         no '-' at the end"
    )]
    Name {
        /// The name.
        name: String,
        /// Maximum length.
        limit: usize,
    },
    /// The operator's namespace, one that it works in, or one of a permission is not valid.
    #[error(
        "the namespace {name:?} is not valid: use at most 63 lower case letters, digits and '-', with no '-' at the ends"
    )]
    Namespace {
        /// The namespace.
        name: String,
    },
    /// The image is empty or contains white space.
    #[error("the image {image:?} is not valid: write it like registry.example.com/games:1.2.0")]
    Image {
        /// The image.
        image: String,
    },
    /// The name of the lease is not valid.
    #[error(
        "the lease {name:?} is not valid: use lower case letters, digits, '-' and '.', like games.example.com"
    )]
    Lease {
        /// The name.
        name: String,
    },
    /// There would be no replica.
    #[error("an operator with 0 replicas does nothing: give at least 1")]
    NoReplicas,
    /// A further argument sets a flag that the manifests depend on.
    #[error("the argument {argument:?} does not fit the manifests: {remedy}")]
    Argument {
        /// The argument.
        argument: String,
        /// The reason, and what to do.
        remedy: &'static str,
    },
    /// The description has another form.
    #[error(
        "the description has format {format}, and this program reads format {DESCRIPTION_FORMAT}: use the same version of Bowline \
         for the operator and for its manifests"
    )]
    Format {
        /// The format.
        format: u32,
    },
    /// A CRD has a group or plural that cannot be in the name of a file.
    #[error("the CRD {name:?} has an invalid group or plural: use lower case letters, digits and '-'")]
    Crd {
        /// The name of the CRD.
        name: String,
    },
}
