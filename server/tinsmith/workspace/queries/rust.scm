(mod_item name: (_) @name body: (_)) @module
(struct_item name: (_) @name) @struct
(union_item name: (_) @name) @union
(enum_item name: (_) @name) @enum
(trait_item name: (_) @name) @trait
(impl_item type: (_) @name) @impl
(type_item name: (_) @name) @type
(function_item name: (_) @name) @function
(function_signature_item name: (_) @name) @function
(macro_definition name: (_) @name) @macro
(const_item name: (_) @name) @constant
(static_item name: (_) @name) @variable
